//! `answerable export`: all that a tenant has.

use std::io::{self, Write};

use clap::Args;

use super::remote::Remote;
use crate::Failure;

/// How the last line of a whole export begins.
const END: &[u8] = b"{\"kind\":\"end\",";

#[derive(Args)]
#[command(after_help = "\
Writes a line of JSON a thing to standard output: settings without what is secret, agents, threads, runs and all that \
is recorded of them, artifacts, files, webhooks, schedules, usage, the audit. Exit status: 0 it is whole, 1 it was \
cut.

Examples:
  answerable export > tenant.ndjson
  answerable export --tenant ten_0198c0de --api-key $ANSWERABLE_OPERATOR_KEY | gzip > tenant.ndjson.gz")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    remote: Remote,
    /// The tenant, for the operator's key
    #[arg(long, value_name = "TENANT_ID")]
    tenant: Option<String>,
}

pub(crate) async fn export(args: ExportArgs) -> Result<(), Failure> {
    let api = args.remote.api()?;
    let path = match &args.tenant {
        Some(tenant) => vec!["v1", "tenants", tenant, "export"],
        None => vec!["v1", "export"],
    };
    let mut response = api.download(&path).await?;
    let mut line = LastLine::default();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                line.push(&chunk);
                write(&chunk)?;
            }
            Ok(None) if line.is_end() => return Ok(()),
            Ok(None) => return Err(Failure::new("the export was cut: it has no end")),
            Err(error) => return Err(Failure::new(format!("the export was cut: {error}"))),
        }
    }
}

fn write(chunk: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(chunk).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(format!("standard output: {error}")))
}

/// The line that came last, as far as it tells whether it is the end.
#[derive(Default)]
struct LastLine(Vec<u8>);

impl LastLine {
    /// The end is short: of a longer line the beginning is enough.
    const MOST: usize = 8 << 10;

    fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.0.ends_with(b"\n") {
                self.0.clear();
            }
            let room = Self::MOST.saturating_sub(self.0.len());
            self.0.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") && !self.0.ends_with(b"\n") {
                self.0.push(b'\n');
            }
        }
    }

    fn is_end(&self) -> bool {
        self.0.starts_with(END) && self.0.ends_with(b"}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_from_a_cut_wherever_it_comes_in_pieces() {
        let whole = format!(
            "{}\n{}\n{}\n",
            r#"{"kind":"run","data":{"text":"{\"kind\":\"end\","}}"#,
            "x".repeat(20_000),
            r#"{"kind":"end","counts":{"run":1}}"#,
        );
        for size in [1, 7, 100, 30_000] {
            for (text, wanted) in
                [(&whole[..], true), (&whole[..whole.len() - 1], false), (&whole[..60], false)]
            {
                let mut line = LastLine::default();
                text.as_bytes().chunks(size).for_each(|chunk| line.push(chunk));
                assert_eq!(line.is_end(), wanted, "{size}: {}", text.len());
            }
        }
        assert!(!LastLine::default().is_end());
    }
}

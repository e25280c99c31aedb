//! Where entries come from: a server, page by page, or a file, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::Path;

use reqwest::Method;
use serde_json::Value;
use url::Url;

use super::Whose;
use crate::Failure;
use crate::cli::remote::Api;

/// Longest line that is read, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// Entries, oldest first.
pub(super) enum Entries {
    /// Those of a server.
    Server(Box<Pages>),
    /// Those of a file.
    Lines {
        /// The file.
        from: Box<dyn BufRead>,
        /// The number of the last line that was read.
        line: usize,
    },
}

/// A list of the server, taken page by page.
pub(super) struct Pages {
    api: Api,
    list: Url,
    after: Option<u64>,
    page: std::vec::IntoIter<Value>,
    cursor: Option<String>,
    is_last: bool,
}

impl Entries {
    /// Those of a server, after a number.
    pub(super) fn at_server(whose: &Whose, after: Option<u64>) -> Result<Self, Failure> {
        let api = whose.remote.api()?;
        let list = match &whose.tenant {
            Some(tenant) => api.url(&["v1", "tenants", tenant, "audit"]),
            None if whose.operator => api.url(&["v1", "tenants", "audit"]),
            None => api.url(&["v1", "audit"]),
        };
        let page = Vec::new().into_iter();
        Ok(Self::Server(Box::new(Pages { api, list, after, page, cursor: None, is_last: false })))
    }

    /// Those of a file, or, for `-`, of standard input.
    pub(super) fn in_file(path: &Path) -> Result<Self, Failure> {
        let from: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(stdin().lock())
        } else {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self::Lines { from, line: 0 })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Failure> {
        match self {
            Self::Server(pages) => pages.next().await,
            Self::Lines { from, line } => next_line(from.as_mut(), line),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::misconfigured(format!("{} can't be read: {error}", path.display()))
}

impl Pages {
    async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(entry) = self.page.next() {
                return Ok(Some(entry));
            }
            if self.is_last {
                return Ok(None);
            }
            self.turn().await?;
        }
    }

    async fn turn(&mut self) -> Result<(), Failure> {
        let mut url = self.list.clone();
        url.query_pairs_mut()
            .append_pair("order", "asc")
            .append_pair("limit", "200")
            .extend_pairs(self.after.iter().map(|after| ("after", after.to_string())))
            .extend_pairs(self.cursor.iter().map(|cursor| ("cursor", cursor)));
        let mut answer = self.api.send(Method::GET, url, None, &[]).await?;
        let Some(Value::Array(entries)) = answer.get_mut("data").map(Value::take) else {
            return Err(Failure::new("the server's answer is no list of entries"));
        };
        let next = answer.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        self.is_last = next.is_none() || next == self.cursor;
        self.cursor = next;
        self.page = entries.into_iter();
        Ok(())
    }
}

fn next_line(from: &mut dyn BufRead, number: &mut usize) -> Result<Option<Value>, Failure> {
    loop {
        let mut line = String::new();
        let read = from.take(LONGEST_LINE).read_line(&mut line);
        *number += 1;
        let read = read.map_err(|error| Failure::new(format!("line {number} can't be read: {error}")))?;
        if read == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            continue;
        }
        let entry = serde_json::from_str(&line);
        return entry.map(Some).map_err(|error| Failure::new(format!("line {number} is no JSON: {error}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_one_by_one() {
        let mut text: &[u8] = b"{\"seq\": 1}\n\n{\"seq\": 2}\nbroken\n";
        let mut line = 0;
        let mut next = || next_line(&mut text, &mut line);
        assert_eq!(next().expect("a line"), Some(serde_json::json!({"seq": 1})));
        assert_eq!(next().expect("a line"), Some(serde_json::json!({"seq": 2})));
        let told = next().expect_err("no JSON");
        assert!(told.message().is_some_and(|told| told.starts_with("line 4 is no JSON")), "{told:?}");
        assert_eq!(next().expect("the end"), None);
    }
}

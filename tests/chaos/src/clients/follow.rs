//! Following a run's events across the deaths of servers, with `Last-Event-ID`.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::lines::Seen;
use super::{LOOK, Office};

/// How long one run is followed.
const STAY: Duration = Duration::from_secs(40);
/// A stream that is silent for longer has died: it sends a comment every 15 s.
const SILENCE: Duration = Duration::from_secs(20);

/// Reads a run's events until the terminal one and notes each. What is noted twice, or skipped, was sent so.
pub(super) async fn follow(office: &Office, run_id: &str) {
    let (until, mut last) = (Instant::now() + STAY, 0);
    while Instant::now() < until {
        if let Ok(response) = office.desk.owner.stream(run_id, last).await {
            match response.status().as_u16() {
                // Nothing is left to say.
                204 => return,
                200 if read(office, run_id, response, &mut last, until).await => return,
                _ => {}
            }
        }
        sleep(LOOK).await;
    }
}

/// Reads one stream until it ends; true: the run's terminal event has come.
async fn read(
    office: &Office,
    run_id: &str,
    mut stream: reqwest::Response,
    last: &mut u64,
    until: Instant,
) -> bool {
    let mut text = Vec::new();
    while Instant::now() < until {
        let Ok(Ok(Some(piece))) = timeout(SILENCE, stream.chunk()).await else { return false };
        text.extend_from_slice(&piece);
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = text.drain(..end + 2).collect();
            let Some(seen) = parse(run_id, &String::from_utf8_lossy(&block)) else { continue };
            office.book.seen(&seen);
            *last = seen.seq;
            if matches!(seen.kind.as_str(), "run.finished" | "run.failed" | "run.cancelled") {
                return true;
            }
        }
    }
    false
}

/// The stored event in a block; `None` for comments and what is live only.
fn parse(run_id: &str, block: &str) -> Option<Seen> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (seq, kind) = (field("id")?.parse().ok()?, field("event")?.to_owned());
    let data: Value = serde_json::from_str(field("data")?).ok()?;
    Some(Seen { run_id: run_id.to_owned(), seq, id: data["id"].as_str()?.to_owned(), kind })
}

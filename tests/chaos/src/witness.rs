//! What witnesses write down: files that are only appended to, one JSON object a line, on the disk before anybody is
//! told.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

/// How many lines share one write to the disk at most.
const BATCH: usize = 1024;

/// A file that is written by a thread of its own, so that lines of the same moment share one `fdatasync`.
#[derive(Clone, Debug)]
pub struct Witness {
    lines: Sender<Line>,
}

#[derive(Debug)]
struct Line {
    text: String,
    stored: Option<oneshot::Sender<io::Result<()>>>,
}

impl Witness {
    /// Opens `name` in `dir`, to append to it.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(dir: &Path, name: &str) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(dir.join(name))?;
        let (lines, received) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || write_all(file, &received))?;
        Ok(Self { lines })
    }

    /// Writes a line; returns when it is on the disk.
    ///
    /// # Errors
    /// It isn't.
    pub async fn write(&self, line: &impl Serialize) -> io::Result<()> {
        let (stored, answer) = oneshot::channel();
        self.send(serde_json::to_string(line)? + "\n", Some(stored))?;
        answer.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Writes a line soon. For what nobody relies on yet; what comes later in the file is later.
    pub fn note(&self, line: &impl Serialize) {
        // Without its writer no `write` succeeds either, and that is where it is noticed.
        let _ = serde_json::to_string(line).map(|text| self.send(text + "\n", None));
    }

    /// Returns when everything before is on the disk.
    ///
    /// # Errors
    /// It isn't.
    pub async fn settled(&self) -> io::Result<()> {
        let (stored, answer) = oneshot::channel();
        self.send(String::new(), Some(stored))?;
        answer.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn send(&self, text: String, stored: Option<oneshot::Sender<io::Result<()>>>) -> io::Result<()> {
        self.lines.send(Line { text, stored }).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn write_all(mut file: File, received: &Receiver<Line>) {
    while let Ok(first) = received.recv() {
        let batch: Vec<Line> = std::iter::once(first).chain(received.try_iter().take(BATCH)).collect();
        let text: String = batch.iter().map(|line| line.text.as_str()).collect();
        let outcome = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        for stored in batch.into_iter().filter_map(|line| line.stored) {
            let answer = match &outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            // Whoever asked may be gone.
            let _ = stored.send(answer);
        }
    }
}

/// All lines of a file; none where there is no file. A last line that was cut off by a death is left out.
///
/// # Errors
/// The file can't be read, or has a line that is something else.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Vec<T>> {
    let file = match File::open(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let lines: Vec<String> = BufReader::new(file).lines().collect::<io::Result<_>>()?;
    let last = lines.len();
    let mut read = Vec::with_capacity(last);
    for (number, line) in (1..).zip(&lines) {
        match serde_json::from_str(line) {
            Ok(entry) => read.push(entry),
            Err(_) if number == last => {}
            Err(error) => return Err(io::Error::other(format!("{name}, line {number}: {error}"))),
        }
    }
    Ok(read)
}

/// Milliseconds since 1970 by this machine's clock, which no fault touches.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A number that follows from a seed and words, spread over all of `u64`: the same for all who ask.
#[must_use]
pub fn drawn(seed: u64, words: &[&str]) -> u64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for word in words {
        for byte in word.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // The last bits of the sum above are poor; this spreads them.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn what_was_written_is_read_again_but_for_a_torn_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let witness = Witness::open(dir.path(), "w.jsonl").expect("a file");
        witness.note(&json!({"n": 1}));
        witness.write(&json!({"n": 2})).await.expect("stored");
        let mut file = File::options().append(true).open(dir.path().join("w.jsonl")).expect("the file");
        file.write_all(b"{\"n\": 3").expect("written");
        let read: Vec<Value> = read(dir.path(), "w.jsonl").expect("lines");
        assert_eq!(read, [json!({"n": 1}), json!({"n": 2})]);
    }

    #[test]
    fn draws_are_spread() {
        let mut tenths = [0; 10];
        for n in 0..1000 {
            let tenth = usize::try_from(drawn(7, &["t", &n.to_string()]) % 10).expect("small");
            tenths[tenth] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
    }
}

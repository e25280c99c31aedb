//! A process, what goes in and comes out of it, and its end.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use secrecy::ExposeSecret;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Line, Shared, StdioCommand};
use crate::mask::Mask;
use crate::mcp::ears::Ears;
use crate::mcp::over_http::MOST_ANSWER;
use crate::sent::Sent;

/// How long a process may take to end by itself after its input ended, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Longest line of a process's own log that is kept, and how much of it all is, in bytes.
const LOG_LINE: usize = 4 << 10;
const MOST_LOG: usize = 1 << 20;

/// What the tasks of a process need.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) mask: Mask,
    pub(super) ears: Ears,
    pub(super) place: Box<dyn Send + Sync>,
    pub(super) shared: Arc<Shared>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Starts the command, and the tasks that serve its pipes. They end with it.
pub(super) fn start(
    command: &StdioCommand,
    queue: mpsc::Receiver<Line>,
    replies: mpsc::WeakSender<Line>,
    parts: Parts,
) -> io::Result<()> {
    let mut child = spawn(command)?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes"));
    };
    tokio::spawn(drain(stderr, parts.name.clone(), parts.mask.clone()));
    tokio::spawn(supervise(child, (stdin, stdout), queue, replies, parts));
    Ok(())
}

/// In a group of its own, so that whatever it starts ends with it, and with nothing of the server's environment.
fn spawn(command: &StdioCommand) -> io::Result<Child> {
    let mut process = Command::new(&command.command);
    process.args(&command.args).env_clear().process_group(0).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        process.env("PATH", path);
    }
    process.envs(command.env.iter().map(|(name, value)| (name, value.expose_secret())));
    process.current_dir(command.cwd.as_deref().unwrap_or(std::path::Path::new("/")));
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process.spawn()
}

/// Serves the pipes until the process ends, closes its output, or is to end.
async fn supervise(
    mut child: Child,
    (stdin, stdout): (ChildStdin, ChildStdout),
    queue: mpsc::Receiver<Line>,
    replies: mpsc::WeakSender<Line>,
    mut parts: Parts,
) {
    let group = child.id();
    let writing = tokio::spawn(write(stdin, queue));
    let (shared, ears) = (Arc::clone(&parts.shared), parts.ears.clone());
    let mut reading = tokio::spawn(async move { read(stdout, &shared, &ears, &replies).await });
    tokio::select! {
        _ = &mut reading => {}
        // What it said last is read, though something that it started may hold its output open.
        _ = child.wait() => drop(timeout(GRACE, &mut reading).await),
        _ = async { parts.stopped.wait_for(|stop| *stop).await.is_ok() } => {}
    }
    parts.shared.end();
    reading.abort();
    // Its input ends with this.
    writing.abort();
    end(&mut child, group).await;
    tracing::debug!(server = parts.name, "an MCP server's process has ended");
    drop(parts.place);
}

/// Ends a process with all that it started.
async fn end(child: &mut Child, group: Option<u32>) {
    let group = group.and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let send = |signal| {
        // Where there is nobody left, there is nothing to do.
        let _ = group.map(|group| killpg(group, signal));
    };
    if timeout(GRACE, child.wait()).await.is_err() {
        send(Signal::SIGTERM);
        let _ = timeout(GRACE, child.wait()).await;
    }
    // Also where it has ended by itself: its children may live on.
    send(Signal::SIGKILL);
    let _ = child.wait().await;
}

async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Line>) {
    while let Some(line) = queue.recv().await {
        if !line.sent.begin() {
            continue;
        }
        let text = line.text + "\n";
        if stdin.write_all(text.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Hears the process line by line. A line that is no message is one of its log that went astray.
async fn read(stdout: ChildStdout, shared: &Shared, ears: &Ears, replies: &mpsc::WeakSender<Line>) {
    let mut lines = BufReader::new(stdout);
    while let Some(line) = next_line(&mut lines, MOST_ANSWER).await {
        for text in shared.hear(&String::from_utf8_lossy(&line), ears) {
            // Where the process doesn't read, its questions go unanswered.
            if let Some(replies) = replies.upgrade() {
                let _ = replies.try_send(Line { text, sent: Sent::default() });
            }
        }
    }
}

/// The next line without its end; none after the last one, and none where it is over the limit.
async fn next_line(lines: &mut (impl AsyncBufReadExt + Unpin), most: usize) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = lines.take(most as u64 + 1).read_until(b'\n', &mut line).await.ok()?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Some(line);
    }
    (read > 0 && read <= most).then_some(line)
}

/// Keeps the process's log going, and shows the first of it to whoever debugs.
async fn drain(stderr: ChildStderr, name: String, mask: Mask) {
    let (mut lines, mut shown) = (BufReader::new(stderr), 0);
    while shown < MOST_LOG {
        let mut line = Vec::new();
        match (&mut lines).take(LOG_LINE as u64).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(read) => shown += read,
        }
        let line = mask.text(String::from_utf8_lossy(&line).trim_end());
        tracing::debug!(server = name, line, "an MCP server's log");
    }
    discard(lines).await;
}

async fn discard(mut rest: impl AsyncRead + Unpin) {
    let mut buffer = [0; 4096];
    while matches!(rest.read(&mut buffer).await, Ok(read) if read > 0) {}
}

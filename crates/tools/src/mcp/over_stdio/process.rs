//! A process, what goes in and comes out of it, and its end.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use secrecy::ExposeSecret;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Line, Shared, StdioCommand};
use crate::mask::Mask;
use crate::mcp::ears::Ears;
use crate::mcp::over_http::MOST_ANSWER;
use crate::sent::Sent;

/// How long a process may take to end by itself after its input ended, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long a process may leave a message unread that doesn't fit into the pipe.
const PATIENCE: Duration = Duration::from_secs(60);
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
    let deaths = signal(SignalKind::child())?;
    let mut child = spawn(command)?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes"));
    };
    tokio::spawn(drain(stderr, parts.name.clone(), parts.mask.clone()));
    tokio::spawn(supervise(Process { child, deaths }, (stdin, stdout), queue, replies, parts));
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

/// A process that was started. Its id is its own, and its group's, until it is waited for.
struct Process {
    child: Child,
    /// Tells when any process has died.
    deaths: unix::Signal,
}

impl Process {
    fn id(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
    }

    /// Returns when it is dead, and leaves it to be waited for.
    async fn death(&mut self) {
        let Some(id) = self.id() else { return };
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while matches!(waitid(Id::Pid(id), look), Ok(WaitStatus::StillAlive)) {
            if self.deaths.recv().await.is_none() {
                return;
            }
        }
    }

    /// Ends it with all that it started.
    async fn end(mut self) {
        let group = self.id();
        let send = |signal| {
            // Where there is nobody left, there is nothing to do.
            let _ = group.map(|group| killpg(group, signal));
        };
        if timeout(GRACE, self.death()).await.is_err() {
            send(Signal::SIGTERM);
            let _ = timeout(GRACE, self.death()).await;
        }
        // Also where it has ended by itself, for its children may live on; before it is waited for, after which the id may
        // be somebody else's.
        send(Signal::SIGKILL);
        let _ = self.child.wait().await;
    }
}

/// Serves the pipes until the process ends, closes one of them, doesn't read any more, or is to end.
async fn supervise(
    mut process: Process,
    (stdin, stdout): (ChildStdin, ChildStdout),
    queue: mpsc::Receiver<Line>,
    replies: mpsc::WeakSender<Line>,
    mut parts: Parts,
) {
    let mut writing = tokio::spawn(write(stdin, queue));
    let (shared, ears) = (Arc::clone(&parts.shared), parts.ears.clone());
    let mut reading = tokio::spawn(async move { read(stdout, &shared, &ears, &replies).await });
    tokio::select! {
        _ = &mut reading => {}
        // What it said last is read, though something that it started may hold its output open.
        () = process.death() => drop(timeout(GRACE, &mut reading).await),
        _ = &mut writing => drop(timeout(GRACE, &mut reading).await),
        _ = async { parts.stopped.wait_for(|stop| *stop).await.is_ok() } => {}
    }
    parts.shared.end();
    reading.abort();
    // Its input ends with this.
    writing.abort();
    process.end().await;
    tracing::debug!(server = parts.name, "an MCP server's process has ended");
    drop(parts.place);
}

/// Writes message after message, until one can't be written: the process has closed its input, or doesn't read.
async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Line>) {
    while let Some(line) = queue.recv().await {
        if !line.sent.begin() {
            continue;
        }
        let text = line.text + "\n";
        let written = async {
            stdin.write_all(text.as_bytes()).await?;
            stdin.flush().await
        };
        if !matches!(timeout(PATIENCE, written).await, Ok(Ok(()))) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a process: `Z` for one that is dead and not waited for, nothing for one that is gone.
    fn state(id: Pid) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    }

    #[tokio::test]
    async fn a_dead_process_keeps_its_id_until_its_group_is_ended() {
        let command = StdioCommand {
            command: "sh".into(),
            args: vec!["-c".into(), "sleep 1000 & echo $!".into()],
            env: [].into(),
            cwd: None,
        };
        let deaths = signal(SignalKind::child()).expect("signals");
        let mut process = Process { child: spawn(&command).expect("a process"), deaths };
        let stdout = process.child.stdout.take().expect("a pipe");
        let line = next_line(&mut BufReader::new(stdout), 100).await.expect("a line");
        let child = Pid::from_raw(String::from_utf8_lossy(&line).parse().expect("an id"));
        let id = process.id().expect("an id");
        timeout(GRACE, process.death()).await.expect("it is dead");
        assert_eq!(state(id), Some('Z'));
        assert!(state(child).is_some_and(|state| state != 'Z'));
        process.end().await;
        assert_eq!(state(id), None);
        let ended = async {
            while !matches!(state(child), None | Some('Z')) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(GRACE, ended).await.expect("what it started has ended");
    }
}

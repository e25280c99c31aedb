//! Stands by a running sandbox: takes its output, watches what only somebody outside can see, and ends it when it is over
//! a limit or nobody wants it any more.

mod end;
mod first;
mod stream;
mod watch;

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::Instant;

use cap_std::fs::Dir;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::bubblewrap::Started;
use crate::init::Report;
use crate::kept::Kept;
use crate::limits::Limits;
use end::end;
use first::First;
use stream::Stream;
use watch::Watch;

/// What is said of a sandbox whose processes the system doesn't show.
pub(crate) const UNSEEN: &str = "the processes of a sandbox can't be watched: /proc doesn't show them";

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself, with this code; a signal's is 128 and its number.
    Exited(i32),
    /// It was ended.
    Stopped(Stop),
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its time was up.
    Time,
    /// Its processes used too much memory.
    Memory,
    /// There were too many of them.
    Processes,
    /// There was too much in its folder, or the disk got full.
    Disk,
    /// It printed too much.
    Output,
    /// Nobody waits for it any more.
    Cancelled,
}

/// What came of a sandbox.
#[derive(Debug)]
pub(crate) struct Supervised {
    pub(crate) how: How,
    pub(crate) output: Kept,
    /// What process 1 said of itself.
    pub(crate) report: Report,
    /// The shell was let start.
    pub(crate) went: bool,
}

/// The system failed.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) error: io::Error,
    /// The shell was let start.
    pub(crate) went: bool,
}

/// A sandbox that runs.
struct Running<'a> {
    child: Child,
    output: Stream,
    said: Stream,
    /// Until the shell is let start.
    go: Option<PipeWriter>,
    /// Since then.
    first: Option<First>,
    cancel: &'a PipeReader,
    watch: Watch<'a>,
    kept: Kept,
    report: Report,
    ends: Instant,
    flood: u64,
}

/// Stays until every process of the sandbox is gone. `cancel` becomes readable, or ends, when it is to be ended.
pub(crate) fn supervise(
    started: Started,
    folder: &Dir,
    limits: &Limits,
    cancel: &PipeReader,
) -> Result<Supervised, Broken> {
    let Started { mut child, output, report, go } = started;
    let streams = Stream::new(output).and_then(|output| Ok((output, Stream::new(report)?)));
    let (output, said) = match streams {
        Ok(streams) => streams,
        Err(error) => {
            drop(go);
            let error = end(&mut child, None, false).err().unwrap_or(error);
            return Err(Broken { error, went: false });
        }
    };
    let mut running = Running {
        child,
        output,
        said,
        go: Some(go),
        first: None,
        cancel,
        watch: Watch::new(folder, limits),
        kept: Kept::new(limits.output),
        report: Report::default(),
        ends: Instant::now() + limits.time,
        flood: limits.flood,
    };
    let stopped = running.until_over();
    let went = running.went();
    running.ended(stopped).map_err(|error| Broken { error, went })
}

impl Running<'_> {
    /// Until it ended by itself, or must be ended.
    fn until_over(&mut self) -> io::Result<Option<Stop>> {
        while self.said.is_open {
            let cancelled = self.wait()?;
            let kept = &mut self.kept;
            self.output.read(|bytes| kept.take(bytes))?;
            let report = &mut self.report;
            self.said.read(|bytes| report.take(bytes))?;
            if cancelled {
                return Ok(Some(Stop::Cancelled));
            }
            self.let_go()?;
            let stop = self.over_limit();
            if stop.is_some() && self.said.is_open {
                return Ok(stop);
            }
        }
        Ok(None)
    }

    /// Until there is something to read, or to look at; whether it was called off.
    fn wait(&self) -> io::Result<bool> {
        let next = if self.went() { self.ends.min(self.watch.next()) } else { self.ends };
        // A full millisecond: what is due in a part of one would be asked for in a loop until then.
        let pause = next.saturating_duration_since(Instant::now()).as_millis() + 1;
        let pause = PollTimeout::from(u16::try_from(pause).unwrap_or(u16::MAX));
        let mut fds = vec![self.cancel.as_fd(), self.said.as_fd()];
        if self.output.is_open {
            fds.push(self.output.as_fd());
        }
        let mut fds: Vec<PollFd> = fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, pause) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(fds[0].any().unwrap_or(false))
    }

    /// Lets the shell start, once process 1 is ready for it and can be watched and ended.
    fn let_go(&mut self) -> io::Result<()> {
        if self.report.landlock().is_none() || !self.said.is_open {
            return Ok(());
        }
        let Some(mut go) = self.go.take() else { return Ok(()) };
        let first = First::of(&self.child)?.filter(First::is_shown);
        let first = first.ok_or_else(|| io::Error::other(UNSEEN))?;
        // If it has just died, its end is told elsewhere.
        let _ = go.write_all(&[1]);
        self.first = Some(first);
        Ok(())
    }

    fn went(&self) -> bool {
        self.first.is_some()
    }

    fn over_limit(&mut self) -> Option<Stop> {
        if Instant::now() >= self.ends {
            return Some(Stop::Time);
        }
        if self.kept.seen() > self.flood {
            return Some(Stop::Output);
        }
        self.watch.look(self.first.as_ref()?.number())
    }

    /// Sees to its end, and says what came of it.
    fn ended(mut self, stopped: io::Result<Option<Stop>>) -> io::Result<Supervised> {
        // Where it still waits for this, it ends.
        drop(self.go.take());
        let went = self.went();
        let status = end(&mut self.child, self.first.take(), !self.said.is_open)?;
        // All who could write are gone: what is left is no more than a pipe holds.
        self.output.read(|bytes| self.kept.take(bytes))?;
        let how = match stopped? {
            Some(stop) => How::Stopped(stop),
            None => How::Exited(status.code().unwrap_or(-1)),
        };
        Ok(Supervised { how, output: self.kept, report: self.report, went })
    }
}

//! Stands by a running sandbox: takes its output, watches what only somebody outside can see, and ends it when it is over
//! a limit or nobody wants it any more.

mod end;
mod stream;

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::bubblewrap::Started;
use crate::kept::Kept;
use crate::limits::Limits;
use crate::usage::{Processes, disk};
use end::end;
use stream::Stream;

/// Pause between two looks at memory.
const MEMORY_LOOK: Duration = Duration::from_millis(25);
/// Pause between two looks at the folder, at least; a look that takes long is followed by a pause ten times as long.
const DISK_LOOK: Duration = Duration::from_millis(200);
/// Bytes of a report.
const MOST_REPORT: usize = 4096;
/// What the file system of the folder must have left, in bytes: under it, all that it is used for is in danger.
const SPARE_DISK: u64 = 64 << 20;
/// Threads beyond the limit that a look may find: bubblewrap, process 1, and one that just ended.
const SPARE_THREADS: usize = 3;

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
    pub(crate) report: String,
}

/// A sandbox that runs.
struct Running<'a> {
    child: Child,
    output: Stream,
    report: Stream,
    cancel: &'a PipeReader,
    folder: &'a Dir,
    limits: &'a Limits,
    kept: Kept,
    said: Vec<u8>,
    ends: Instant,
    look_at_memory: Instant,
    look_at_disk: Instant,
}

/// Stays until every process of the sandbox is gone. `cancel` becomes readable, or ends, when it is to be ended.
pub(crate) fn supervise(
    started: Started,
    folder: &Dir,
    limits: &Limits,
    cancel: &PipeReader,
) -> io::Result<Supervised> {
    let Started { mut child, output, report } = started;
    let streams = Stream::new(output).and_then(|output| Ok((output, Stream::new(report)?)));
    let (output, report) = match streams {
        Ok(streams) => streams,
        Err(error) => {
            end(&mut child, false)?;
            return Err(error);
        }
    };
    let now = Instant::now();
    let mut running = Running {
        child,
        output,
        report,
        cancel,
        folder,
        limits,
        kept: Kept::new(limits.output),
        said: Vec::new(),
        ends: now + limits.time,
        look_at_memory: now,
        look_at_disk: now + DISK_LOOK,
    };
    let stopped = running.until_over();
    let status = end(&mut running.child, !running.report.is_open)?;
    // All who could write are gone: what is left is no more than a pipe holds.
    running.output.read(|bytes| running.kept.take(bytes))?;
    let how = match stopped? {
        Some(stop) => How::Stopped(stop),
        None => How::Exited(status.code().unwrap_or(-1)),
    };
    let report = String::from_utf8_lossy(&running.said).into_owned();
    Ok(Supervised { how, output: running.kept, report })
}

impl Running<'_> {
    /// Until it ended by itself, or must be ended.
    fn until_over(&mut self) -> io::Result<Option<Stop>> {
        while self.report.is_open {
            let cancelled = self.wait()?;
            let kept = &mut self.kept;
            self.output.read(|bytes| kept.take(bytes))?;
            let said = &mut self.said;
            self.report
                .read(|bytes| said.extend(bytes.iter().take(MOST_REPORT.saturating_sub(said.len()))))?;
            if cancelled {
                return Ok(Some(Stop::Cancelled));
            }
            let stop = self.over_limit();
            if stop.is_some() && self.report.is_open {
                return Ok(stop);
            }
        }
        Ok(None)
    }

    /// Until there is something to read, or to look at; whether it was called off.
    fn wait(&self) -> io::Result<bool> {
        let next = self.ends.min(self.look_at_memory).min(self.look_at_disk);
        // A full millisecond: what is due in a part of one would be asked for in a loop until then.
        let pause = next.saturating_duration_since(Instant::now()).as_millis() + 1;
        let pause = PollTimeout::from(u16::try_from(pause).unwrap_or(u16::MAX));
        let mut fds = vec![self.cancel.as_fd(), self.report.as_fd()];
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

    fn over_limit(&mut self) -> Option<Stop> {
        let now = Instant::now();
        if now >= self.ends {
            return Some(Stop::Time);
        }
        if self.kept.seen() > self.limits.flood {
            return Some(Stop::Output);
        }
        if now >= self.look_at_memory {
            self.look_at_memory = now + MEMORY_LOOK;
            let processes = Processes::of(self.child.id());
            if processes.are_over(self.limits.memory) {
                return Some(Stop::Memory);
            }
            // The kernel keeps this limit; old ones count what others of the same account run.
            if processes.threads() > self.limits.processes as usize + SPARE_THREADS {
                return Some(Stop::Processes);
            }
        }
        if now >= self.look_at_disk {
            let is_over = self.disk_is_over();
            self.look_at_disk = Instant::now() + DISK_LOOK.max(now.elapsed() * 10);
            return is_over.then_some(Stop::Disk);
        }
        None
    }

    fn disk_is_over(&self) -> bool {
        use cap_std::fs::MetadataExt;
        let Limits { disk: most, entries, .. } = *self.limits;
        let Ok(there) = disk(self.folder, entries) else { return true };
        let device = self.folder.dir_metadata().map(|folder| folder.dev()).unwrap_or_default();
        let deleted = Processes::of(self.child.id()).deleted_files(device);
        // A file may be open many times.
        let deleted: u64 = deleted.collect::<std::collections::HashMap<_, _>>().values().sum();
        there.is_too_deep || there.entries > entries || there.bytes + deleted > most || self.is_nearly_full()
    }

    fn is_nearly_full(&self) -> bool {
        let free = nix::sys::statvfs::fstatvfs(self.folder);
        free.is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() < SPARE_DISK)
    }
}

//! The limits that only somebody outside can watch: those of all processes together.

use std::time::{Duration, Instant};

use cap_std::fs::{Dir, MetadataExt};

use super::Stop;
use crate::limits::Limits;
use crate::usage::{Deleted, Memory, Processes, Room, Walk};

/// Pause between two looks at the processes.
const PROCESSES_LOOK: Duration = Duration::from_millis(25);
/// Pause between two looks at the room on the disk, and between two walks through the folder, at least;
const DISK_LOOK: Duration = Duration::from_millis(200);
/// a walk that takes long is followed by a pause ten times as long, but by none that is longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Entries that are walked past before all else is looked at again.
const PART: usize = 1000;
/// Threads beyond the limit that a look may find: it takes its time, and some end meanwhile while others begin.
const SPARE_THREADS: usize = 3;

/// Watches one sandbox.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    folder: &'a Dir,
    device: u64,
    limits: &'a Limits,
    memory: Memory,
    /// The most that was free on the folder's file system since the sandbox was started, in bytes.
    most_free: u64,
    walk: Option<Walk>,
    /// Time that the walk took so far.
    walked: Duration,
    look_at_processes: Instant,
    look_at_room: Instant,
    look_at_folder: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn new(folder: &'a Dir, limits: &'a Limits) -> Self {
        let now = Instant::now();
        Self {
            folder,
            device: folder.dir_metadata().map(|folder| folder.dev()).unwrap_or_default(),
            limits,
            memory: Memory::new(),
            most_free: 0,
            walk: None,
            walked: Duration::ZERO,
            look_at_processes: now,
            look_at_room: now,
            look_at_folder: now + DISK_LOOK,
        }
    }

    /// When it wants to look next.
    pub(super) fn next(&self) -> Instant {
        self.look_at_processes.min(self.look_at_room).min(self.look_at_folder)
    }

    /// Looks at what is due; the limit that the processes below the sandbox's process 1 are over.
    pub(super) fn look(&mut self, first: u32) -> Option<Stop> {
        let now = Instant::now();
        if now >= self.look_at_processes {
            self.look_at_processes = now + PROCESSES_LOOK;
            let processes = Processes::of(first);
            if self.memory.is_over(&processes, self.limits.memory) {
                return Some(Stop::Memory);
            }
            // The kernel keeps this limit; old ones count what others of the same account run.
            if processes.threads() > self.limits.processes as usize + SPARE_THREADS {
                return Some(Stop::Processes);
            }
        }
        if now >= self.look_at_room {
            self.look_at_room = now + DISK_LOOK;
            if self.room_is_gone(first) {
                return Some(Stop::Disk);
            }
        }
        (now >= self.look_at_folder && self.folder_is_over(first)).then_some(Stop::Disk)
    }

    /// The disk is nearly full; or it lost more than the sandbox may take, and that hides what it takes.
    fn room_is_gone(&mut self, first: u32) -> bool {
        let Some(room) = Room::of(self.folder) else { return false };
        if room.is_nearly_gone() {
            return true;
        }
        self.most_free = self.most_free.max(room.free);
        if self.most_free - room.free <= self.limits.disk {
            return false;
        }
        // Others may be at it, or it is not seen yet: a closer look is due.
        self.look_at_folder = Instant::now();
        Deleted::of(&Processes::of(first), self.device).hides()
    }

    /// Begins a walk through the folder, or goes on with it.
    fn folder_is_over(&mut self, first: u32) -> bool {
        let begun = Instant::now();
        let walk = match self.walk.take() {
            Some(walk) => Ok(walk),
            None => Walk::new(self.folder),
        };
        let Ok(mut walk) = walk else { return true };
        let has_more = walk.go_on(PART);
        let Limits { disk, entries, .. } = *self.limits;
        let seen = walk.seen;
        if seen.is_too_deep || seen.entries > entries || seen.bytes > disk {
            return true;
        }
        self.walked += begun.elapsed();
        if has_more {
            self.walk = Some(walk);
            return false;
        }
        let pause = (self.walked * 10).clamp(DISK_LOOK, LONGEST_PAUSE);
        self.walked = Duration::ZERO;
        self.look_at_folder = Instant::now() + pause;
        seen.bytes + Deleted::of(&Processes::of(first), self.device).bytes() > disk
    }
}

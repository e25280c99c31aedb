//! Files that were deleted and still take space, since a process has them open, or mapped, or on their way to another one.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::processes::{Processes, Told, tasks};

/// What the name of a mapped file ends with that was deleted.
const DELETED: &str = " (deleted)";
/// Those names that are no files of a folder, but memory.
const MEMORY: [&str; 3] = ["/dev/zero", "/memfd:", "/SYSV"];

/// Deleted files of one file system.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    /// Bytes on disk, by the file's number.
    files: HashMap<u64, u64>,
    hides: bool,
}

impl Deleted {
    /// Those that the processes hold on `device`.
    pub(crate) fn of(processes: &Processes, device: u64) -> Self {
        let mut this = Self::default();
        for process in processes.ids() {
            this.look_at_maps(*process, device);
            // Each thread may have a table of its own.
            for task in tasks(*process) {
                this.look_at_open(&task, device);
            }
        }
        this
    }

    /// Bytes on disk, of what can be seen.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// There may be some that can't be seen: a process doesn't let us look, or has a file mapped that doesn't tell its size,
    /// or left descriptors in a socket.
    pub(crate) fn hides(&self) -> bool {
        self.hides
    }

    fn look_at_open(&mut self, task: &Path, device: u64) {
        let open = match Told::from(fs::read_dir(task.join("fd"))) {
            Told::This(open) => open,
            Told::Gone => return,
            Told::Hidden => {
                self.hides = true;
                return;
            }
        };
        for fd in open.flatten() {
            let Ok(data) = fs::metadata(fd.path()) else { continue };
            if data.is_file() {
                self.add(&data, device);
            } else if data.mode() & libc::S_IFMT == libc::S_IFSOCK {
                let told = fs::read_to_string(task.join("fdinfo").join(fd.file_name()));
                self.hides |= told.is_ok_and(|told| has_descriptors(&told));
            }
        }
    }

    fn look_at_maps(&mut self, process: u32, device: u64) {
        let maps = match Told::from(fs::read_to_string(format!("/proc/{process}/maps"))) {
            Told::This(maps) => maps,
            Told::Gone => return,
            Told::Hidden => {
                self.hides = true;
                return;
            }
        };
        for range in maps.lines().filter_map(deleted) {
            match Told::from(fs::metadata(format!("/proc/{process}/map_files/{range}"))) {
                Told::This(file) => self.add(&file, device),
                Told::Gone => {}
                Told::Hidden => self.hides = true,
            }
        }
    }

    fn add(&mut self, file: &fs::Metadata, device: u64) {
        if file.nlink() == 0 && file.dev() == device {
            self.files.insert(file.ino(), file.blocks() * 512);
        }
    }
}

/// The range of addresses of a line of a process's maps, if a file stands behind it that was deleted.
fn deleted(line: &str) -> Option<&str> {
    let (range, rest) = line.split_once(' ')?;
    let name = rest.strip_suffix(DELETED)?.splitn(5, ' ').nth(4)?.trim_start();
    (!MEMORY.iter().any(|memory| name.starts_with(memory))).then_some(range)
}

/// Whether descriptors wait in a socket to be taken out.
fn has_descriptors(fdinfo: &str) -> bool {
    fdinfo.lines().filter_map(|line| line.strip_prefix("scm_fds:")).any(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{IoSlice, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

    fn ours() -> Processes {
        Processes::only(std::process::id())
    }

    #[test]
    fn an_open_file_counts_when_it_is_deleted_and_no_longer_than_it_is_open() {
        let mut file = tempfile::tempfile().expect("a file that is deleted");
        file.write_all(&[7; 3_000_000]).expect("its content");
        let device = file.metadata().expect("it").dev();
        let number = file.metadata().expect("it").ino();
        let again = file.try_clone().expect("it once more");
        assert!(Deleted::of(&ours(), device).files[&number] >= 3_000_000);
        assert!(!Deleted::of(&ours(), device + 1).files.contains_key(&number));
        drop((file, again));
        assert!(!Deleted::of(&ours(), device).files.contains_key(&number));
    }

    #[test]
    fn descriptors_that_wait_in_a_socket_hide_something() {
        let (one, _other) = UnixStream::pair().expect("two sockets");
        let file = tempfile::tempfile().expect("a file");
        let fds = [file.as_raw_fd()];
        let sent = sendmsg::<()>(
            one.as_raw_fd(),
            &[IoSlice::new(b"x")],
            &[ControlMessage::ScmRights(&fds)],
            MsgFlags::empty(),
            None,
        );
        assert_eq!(sent, Ok(1));
        assert!(Deleted::of(&ours(), 0).hides());
        assert!(has_descriptors("pos:\t0\nscm_fds: 2\n") && !has_descriptors("pos:\t0\nscm_fds: 0\n"));
    }

    #[test]
    fn maps_tell_what_was_deleted() {
        let line = "7f1c000-7f1d000 rw-s 00000000 fe:00 3539012                    /workspace/a b (deleted)";
        assert_eq!(deleted(line), Some("7f1c000-7f1d000"));
        for other in [
            "7f1c000-7f1d000 r-xp 00000000 fe:00 3539012                    /usr/bin/perl",
            "7f1c000-7f1d000 rw-s 00000000 00:01 1234                       /dev/zero (deleted)",
            "7f1c000-7f1d000 rw-s 00000000 00:01 1234                       /memfd:x (deleted)",
            "7f1c000-7f1d000 rw-p 00000000 00:00 0 ",
        ] {
            assert_eq!(deleted(other), None, "{other}");
        }
    }
}

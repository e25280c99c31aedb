//! How bubblewrap is started, and what it is told to make.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::account;
use crate::init::Inside;
use crate::sandbox::Settings;
use crate::seccomp;

/// Where a command finds its folder.
pub(crate) const HOME: &str = "/workspace";
/// Bytes of `/tmp`, and of `/dev/shm`.
const TMP_BYTES: [(&str, &str); 2] = [("/tmp", "67108864"), ("/dev/shm", "16777216")];
/// Folders of programs; where they are links into `/usr`, they are links within too.
const PROGRAMS: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What programs need of `/etc` to be found: links between programs, and places of libraries.
const ETC: [&str; 2] = ["/etc/alternatives", "/etc/ld.so.cache"];
/// What else the network needs of it.
const ETC_NETWORK: [&str; 4] = ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/pki"];
const PASSWD: &str = "root:x:0:0::/:/bin/false\nagent:x:1000:1000::/workspace:/bin/sh\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";
const ENVIRONMENT: [(&str, &str); 7] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
    ("HOME", HOME),
    ("USER", "agent"),
    ("LOGNAME", "agent"),
    ("SHELL", "/bin/sh"),
    ("TMPDIR", "/tmp"),
    ("LANG", "C.UTF-8"),
];

/// A sandbox that has been started.
#[derive(Debug)]
pub(crate) struct Started {
    /// bubblewrap's outer process; it ends after all within have.
    pub(crate) child: Child,
    /// What the command prints.
    pub(crate) output: PipeReader,
    /// What [`crate::init`] says; it is closed when nothing of the sandbox runs any more.
    pub(crate) report: PipeReader,
    /// A byte in it lets the shell start; its end without one ends the sandbox.
    pub(crate) go: PipeWriter,
}

/// Starts `inside` over `folder`. It dies when the calling *thread* ends, so that one waits for it.
///
/// bubblewrap's outer process sees to that itself (`--die-with-parent`) as soon as its inner one can go on without it. It
/// must not die earlier: the inner one would wait for it for ever. Until the inner one is bound in the same way, it only
/// makes the sandbox; the shell starts when this server, by `go`, shows that it lives.
pub(crate) fn start(
    settings: &Settings,
    folder: &Path,
    network: bool,
    inside: &Inside,
) -> io::Result<Started> {
    let (output, printed) = io::pipe()?;
    let (report, reporting) = io::pipe()?;
    let (going, go) = io::pipe()?;
    let init = File::open(&settings.init)?;
    let mut told = Told::default();
    told.namespaces(network);
    told.files(folder, network)?;
    for program in seccomp::programs().map_err(io::Error::other)? {
        let fd = told.pass_bytes(&program)?;
        told.say(["--add-seccomp-fd", &fd]);
    }
    // By its descriptor: the file may have been replaced since this program began, and its path isn't within.
    let init = format!("/proc/self/fd/{}", told.pass(init.into()));
    let reporting = told.pass(OwnedFd::from(reporting));
    let going = told.pass(OwnedFd::from(going));
    told.say(["--", &init]);
    let Told { mut arguments, passed } = told;
    arguments.extend(inside.arguments(&reporting, &going));
    let mut command = Command::new(&settings.bubblewrap);
    command.args(arguments).env_clear().current_dir("/").stdin(Stdio::null());
    command.stdout(printed.try_clone()?).stderr(printed);
    if let Some(account) = account::other() {
        command.uid(account.uid).gid(account.gid);
    }
    hand_over(&mut command, passed);
    // What was handed over is closed here with the command, so that the pipes end when the sandbox does.
    let child = command.spawn()?;
    Ok(Started { child, output, report, go })
}

/// Leaves the new process nothing but what is passed to it.
#[expect(unsafe_code, reason = "what a process inherits is settled between fork and exec")]
fn hand_over(command: &mut Command, passed: Vec<OwnedFd>) {
    // SAFETY: the closure makes system calls that are async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            // Others in this program may have left theirs open to children.
            if libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) != 0 {
                return Err(io::Error::last_os_error());
            }
            for fd in &passed {
                fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            Ok(())
        });
    }
}

/// What bubblewrap is told, and given.
#[derive(Default)]
struct Told {
    arguments: Vec<String>,
    passed: Vec<OwnedFd>,
}

impl Told {
    fn say<const N: usize>(&mut self, words: [&str; N]) {
        self.arguments.extend(words.map(str::to_owned));
    }

    /// The number that `fd` has there too.
    fn pass(&mut self, fd: OwnedFd) -> String {
        let number = fd.as_raw_fd().to_string();
        self.passed.push(fd);
        number
    }

    /// Passes what fits into a pipe at once.
    fn pass_bytes(&mut self, bytes: &[u8]) -> io::Result<String> {
        let (reader, mut writer): (PipeReader, PipeWriter) = io::pipe()?;
        writer.write_all(bytes)?;
        Ok(self.pass(reader.into()))
    }

    fn namespaces(&mut self, network: bool) {
        self.say(["--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"]);
        if network {
            self.say(["--share-net"]);
        }
        self.say(["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1"]);
        self.say(["--cap-drop", "ALL", "--clearenv"]);
        for (name, value) in ENVIRONMENT {
            self.say(["--setenv", name, value]);
        }
    }

    fn files(&mut self, folder: &Path, network: bool) -> io::Result<()> {
        self.say(["--ro-bind", "/usr", "/usr"]);
        for path in PROGRAMS {
            match Path::new(path).read_link() {
                Ok(target) => self.say(["--symlink", utf8(&target)?, path]),
                Err(_) => self.say(["--ro-bind-try", path, path]),
            }
        }
        for (path, text) in [("/etc/passwd", PASSWD), ("/etc/group", GROUP), ("/etc/nsswitch.conf", NSSWITCH)]
        {
            let fd = self.pass_bytes(text.as_bytes())?;
            self.say(["--perms", "0444", "--ro-bind-data", &fd, path]);
        }
        let more: &[&str] = if network { &ETC_NETWORK } else { &[] };
        for path in ETC.iter().chain(more) {
            self.say(["--ro-bind-try", path, path]);
        }
        self.say(["--proc", "/proc", "--dev", "/dev"]);
        for (path, bytes) in TMP_BYTES {
            self.say(["--size", bytes, "--tmpfs", path]);
        }
        self.say(["--bind", utf8(folder)?, HOME, "--chdir", HOME]);
        // They are in memory, without a bound of their own.
        self.say(["--remount-ro", "/dev", "--remount-ro", "/"]);
        Ok(())
    }
}

fn utf8(path: &Path) -> io::Result<&str> {
    let why = || io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no UTF-8", path.display()));
    path.to_str().ok_or_else(why)
}

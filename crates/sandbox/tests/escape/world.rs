//! What an attempt could reach if it got out: a file, sockets, a process, a secret, a descriptor.

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_sandbox::{Ended, Folder, Limits, Order, Sandbox, Settings};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// Whoever sets this doesn't want to know whether sandboxes hold.
const UNTRIED: &str = "ANSWERABLE_TEST_NO_SANDBOX";

/// A sandbox, or none where nothing is to be tried. That there are none here is no reason.
pub(crate) fn sandbox() -> Option<Sandbox> {
    if std::env::var_os(UNTRIED).is_some() {
        eprintln!("\n!!! SKIPPED: {UNTRIED} is set, so that nothing was tried.\n");
        return None;
    }
    let sandbox = Sandbox::new(settings());
    let layers = sandbox.probe();
    let layers = layers.unwrap_or_else(|why| {
        panic!("there are no sandboxes here: {why}. Install `bubblewrap`, or set {UNTRIED}=1 to try nothing")
    });
    eprintln!("layers: {layers}");
    Some(sandbox)
}

pub(crate) fn settings() -> Settings {
    Settings { init: env!("CARGO_BIN_EXE_sandbox-init").into(), at_once: 4, ..Settings::default() }
}

pub(crate) fn limits(seconds: u64) -> Limits {
    Limits { time: Duration::from_secs(seconds), ..Limits::default() }
}

/// Runs a command with these limits over a folder of its own.
pub(crate) async fn run(sandbox: &Sandbox, command: &str, limits: Limits) -> Ended {
    let order = Order { command: command.into(), network: false, limits };
    sandbox.run(folder(sandbox).await, order).await.expect("it runs")
}

/// A folder with a place.
pub(crate) async fn folder(sandbox: &Sandbox) -> Arc<Folder> {
    let place = sandbox.place().await;
    Arc::new(sandbox.folder(place).expect("a folder"))
}

/// Waits until a folder is gone that nobody has any more.
pub(crate) async fn until_gone(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while folder.exists() {
        assert!(Instant::now() < deadline, "{} is left", folder.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Processes of the machine whose arguments hold `marker`.
pub(crate) fn processes(marker: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let arguments = |id: &u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    ids.filter(|id| {
        let arguments = arguments(id);
        arguments.windows(marker.len()).any(|part| part == marker.as_bytes())
    })
    .collect()
}

/// Until there are such processes, or none.
pub(crate) fn until(marker: &str, are_there: bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while processes(marker).is_empty() == are_there {
        assert!(Instant::now() < deadline, "{marker}: {:?}", processes(marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) struct World {
    temp: TempDir,
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    _path: UnixListener,
    abstract_name: String,
    _abstract: UnixListener,
    /// Of the account that commands run as.
    victim: Child,
    _leaked: File,
}

impl World {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(temp.path(), open).expect("open to all");
        fs::write(temp.path().join("canary"), "yellow-bird").expect("a file");
        let abstract_name = format!("answerable-escape-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("an address");
        let mut victim = Command::new("sleep");
        victim.arg("86399.5");
        if geteuid().is_root() {
            victim.uid(65534).gid(65534);
        }
        let leaked = File::open(temp.path().join("canary")).expect("it");
        fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty())).expect("open to children");
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            _path: UnixListener::bind(temp.path().join("socket")).expect("a socket"),
            _abstract: UnixListener::bind_addr(&address).expect("a socket"),
            abstract_name,
            victim: victim.spawn().expect("a victim"),
            _leaked: leaked,
            temp,
        }
    }

    /// The script with the world's names filled in.
    pub(crate) fn fill(&self, script: &str) -> String {
        let port = |listener: &TcpListener| listener.local_addr().expect("a port").port().to_string();
        script
            .replace("{dir}", self.temp.path().to_str().expect("UTF-8"))
            .replace("{tcp}", &port(&self.tcp))
            .replace("{tcp6}", &self.tcp6.as_ref().map_or("9".into(), port))
            .replace("{udp}", &self.udp.local_addr().expect("a port").port().to_string())
            .replace("{abstract}", &self.abstract_name)
            .replace("{victim}", &self.victim.id().to_string())
            .replace("{fd}", &self._leaked.as_raw_fd().to_string())
    }

    /// Whether a sandbox has a program: its folders of programs are this machine's.
    pub(crate) fn has_program(&self, program: &str) -> bool {
        let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
        folders.iter().any(|folder| Path::new(folder).join(program).is_file())
    }

    /// Whether this machine has what the script is about: some have no IPv6.
    pub(crate) fn has(&self, script: &str) -> bool {
        self.tcp6.is_some() || !script.contains("{tcp6}")
    }

    /// What the same script does without a sandbox.
    pub(crate) fn outside(&self, script: &str) -> String {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &self.fill(script)]).current_dir(self.temp.path()).stdin(Stdio::null());
        String::from_utf8_lossy(&shell.output().expect("a shell").stdout).into_owned()
    }

    /// Whether it was left alone.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.udp.set_nonblocking(true).expect("its mode");
        let victim_lives = self.victim.try_wait().expect("its state").is_none();
        let canary = fs::read(self.temp.path().join("canary")).expect("it");
        let entries = fs::read_dir(self.temp.path()).expect("it").count();
        victim_lives && canary == b"yellow-bird" && entries == 2
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.victim.kill().expect("it is ours");
        self.victim.wait().expect("its end");
    }
}

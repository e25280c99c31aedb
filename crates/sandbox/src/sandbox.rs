//! The sandboxes of this process: so many at once, each with a thread of its own.

use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::bubblewrap;
use crate::folder::Folder;
use crate::init::{Inside, Report};
use crate::kept::Kept;
use crate::limits::Limits;
use crate::probe::{self, Layers, Unusable};
use crate::supervise::{Broken, How, Supervised, supervise};
use crate::usage::Room;

/// Bytes of a command: the system takes no more in one argument.
const MOST_COMMAND: usize = 120 << 10;

/// What sandboxes are made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program that calls [`crate::init::if_asked`] first; `/proc/self/exe` where that is this one.
    pub init: PathBuf,
    /// bubblewrap.
    pub bubblewrap: PathBuf,
    /// Where folders are made.
    pub folders: PathBuf,
    /// Sandboxes at once.
    pub at_once: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            init: "/proc/self/exe".into(),
            bubblewrap: "bwrap".into(),
            folders: std::env::temp_dir(),
            at_once: 8,
        }
    }
}

/// A command, and what it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// For `/bin/sh -c`.
    pub command: String,
    /// It is on the host's network, as this process is.
    pub network: bool,
    /// Its limits.
    pub limits: Limits,
}

/// What came of a command. All its processes are gone.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub how: How,
    /// What it printed on both of its streams, as it came.
    pub output: Kept,
    /// Time from its start.
    pub took: Duration,
    /// Its folder, as it left it.
    pub folder: Arc<Folder>,
    pub(crate) report: Report,
}

/// Why there was no command.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No shell would take it.
    #[error("{0}")]
    Command(&'static str),
    /// The sandbox could not be made; nothing ran.
    #[error("the sandbox can't be made: {0}")]
    NotMade(String),
    /// The system failed. The command may have run, but what it did stayed within its folder.
    #[error("the sandbox failed: {0}")]
    Failed(#[from] io::Error),
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        if broken.went { Self::Failed(broken.error) } else { Self::NotMade(broken.error.to_string()) }
    }
}

/// Makes sandboxes. Clones share the places.
#[derive(Debug, Clone)]
pub struct Sandbox {
    settings: Arc<Settings>,
    places: Arc<Semaphore>,
}

impl Sandbox {
    /// Nothing is tried yet; see [`Sandbox::probe`].
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        settings.bubblewrap = found(settings.bubblewrap);
        let places = Arc::new(Semaphore::new(settings.at_once));
        Self { settings: Arc::new(settings), places }
    }

    /// Runs a command in a sandbox and looks whether each layer is there. Blocks for some ten milliseconds.
    ///
    /// # Errors
    /// Sandboxes can't be made here, or would not confine.
    pub fn probe(&self) -> Result<Layers, Unusable> {
        probe::probe(self)
    }

    /// A new and empty folder, which has the place until it is taken away. Blocks.
    ///
    /// # Errors
    /// The system's.
    pub fn folder(&self, place: Place) -> io::Result<Folder> {
        Folder::new(&self.settings.folders, Some(place))
    }

    /// One without a place, for a look.
    pub(crate) fn folder_to_look(&self) -> io::Result<Folder> {
        Folder::new(&self.settings.folders, None)
    }

    /// Takes away folders that servers left behind when they died. Blocks.
    ///
    /// # Errors
    /// Where they are made can't be looked into.
    pub fn sweep(&self) -> io::Result<usize> {
        Folder::sweep(&self.settings.folders)
    }

    /// Waits for a place among so many. There are as many folders of commands, and no more.
    pub async fn place(&self) -> Place {
        // It is never closed; if it were, there would be no bound to keep.
        Place(Arc::clone(&self.places).acquire_owned().await.ok())
    }

    /// Runs a command over a folder, which nobody else may use meanwhile. Dropping the future ends the command; the folder
    /// goes when that is done and nobody else has it.
    ///
    /// # Errors
    /// See [`Fault`].
    pub async fn run(&self, folder: Arc<Folder>, order: Order) -> Result<Ended, Fault> {
        let (cancel, wanted) = io::pipe()?;
        let (sender, receiver) = oneshot::channel();
        let this = self.clone();
        // A thread of its own: the sandbox dies with the thread that started it.
        std::thread::Builder::new().name("sandbox".into()).spawn(move || {
            let ended = this.run_here(folder, &order, &cancel);
            // Nobody may be waiting: then the folder goes here.
            let _ = sender.send(ended);
        })?;
        let ended = receiver.await;
        drop(wanted);
        ended.unwrap_or_else(|_| Err(Fault::Failed(io::Error::other("the sandbox's thread ended"))))
    }

    /// The same on this thread, until `cancel` is readable or closed.
    pub(crate) fn run_here(
        &self,
        folder: Arc<Folder>,
        order: &Order,
        cancel: &PipeReader,
    ) -> Result<Ended, Fault> {
        if order.command.contains('\0') {
            return Err(Fault::Command("a command holds no NUL characters"));
        }
        if order.command.len() > MOST_COMMAND {
            return Err(Fault::Command("a command has at most 122880 bytes"));
        }
        if Room::of(folder.dir()).is_some_and(Room::is_nearly_gone) {
            return Err(Fault::NotMade("the disk of its folder is nearly full".into()));
        }
        let begun = Instant::now();
        let not_made = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                Fault::NotMade(format!("{} is not here", name(&self.settings.bubblewrap)))
            }
            _ => Fault::NotMade(error.to_string()),
        };
        let started = bubblewrap::start(&self.settings, folder.path(), order.network, &Inside::of(order))
            .map_err(not_made)?;
        let ended = supervise(started, folder.dir(), &order.limits, cancel).map_err(Fault::from)?;
        if let Some(why) = self.not_run(&ended) {
            return Err(Fault::NotMade(why));
        }
        let Supervised { how, output, report, .. } = ended;
        Ok(Ended { how, output, took: begun.elapsed(), folder, report })
    }

    /// Why a sandbox that ended by itself never had a shell.
    fn not_run(&self, ended: &Supervised) -> Option<String> {
        let by_itself = matches!(ended.how, How::Exited(_));
        let fault = ended.report.fault();
        if !by_itself || ended.went && fault.is_none() {
            return None;
        }
        // What bubblewrap says it says where the command would have.
        let said = fault.unwrap_or_else(|| ended.output.text());
        Some(match said.trim() {
            "" => format!("{} ended and said nothing", name(&self.settings.bubblewrap)),
            said => said.to_owned(),
        })
    }
}

/// What a program is called, for people who may not know where it is.
fn name(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// Where a program is, by this process's own `PATH`: the new process has none.
fn found(program: PathBuf) -> PathBuf {
    if program.components().count() > 1 {
        return program;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(&program));
    places.find(|place| place.is_absolute() && place.is_file()).unwrap_or(Path::new("/").join(&program))
}

/// One of the places that there are for sandboxes at once.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "it is held, not used")] Option<OwnedSemaphorePermit>);

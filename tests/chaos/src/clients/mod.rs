//! The clients: they start runs, follow, steer, change and cancel them, act as the people that runs wait for, and write
//! down what they were told.

mod answers;
mod ask;
mod attend;
mod book;
mod desk;
mod endpoints;
mod follow;
mod job;
pub mod lines;
mod people;
mod submit;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use ask::{Answer, Ask, Caller};
pub use endpoints::Endpoints;

use book::Book;
use desk::Desk;
use job::Job;

/// Pause between two looks at something that may change.
const LOOK: Duration = Duration::from_millis(150);

/// What clients need to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they write their logs.
    pub dir: PathBuf,
    /// Seed of all that they do; part of every name, so that rounds with different seeds may share a folder.
    pub seed: u64,
    /// The servers.
    pub endpoints: Endpoints,
    /// The operator's key of the servers.
    pub operator_key: String,
    /// Base URL of the world's tools, and of what people ask it.
    pub tools_url: String,
    /// `base_url` of its model.
    pub model_url: String,
    /// Runs that are attended at once.
    pub at_once: usize,
}

/// Something is not as it must be for the clients to begin.
#[derive(Debug, thiserror::Error)]
#[error("the clients can't begin: {0}")]
pub struct Unfit(String);

/// Clients at work. Dropped, they stop.
#[derive(Debug)]
pub struct Clients {
    office: Arc<Office>,
    tasks: JoinSet<()>,
}

/// What the clients share.
#[derive(Debug)]
struct Office {
    settings: Settings,
    desk: Desk,
    book: Book,
    world: reqwest::Client,
    /// The number of the next job.
    next: AtomicU64,
    /// Requests for runs that are not answered yet.
    out: AtomicU64,
    is_paused: AtomicBool,
}

impl Clients {
    /// Sets up a tenant (with retries, at whatever server is up) and begins.
    ///
    /// # Errors
    /// The logs can't be written, or the servers refuse what the clients need.
    pub async fn start(settings: Settings) -> Result<Self, Unfit> {
        let book = Book::open(&settings.dir).map_err(|e| Unfit(e.to_string()))?;
        let operator = Caller::new(settings.endpoints.clone(), &settings.operator_key);
        let desk = desk::open(&settings, &operator).await?;
        let world = reqwest::Client::builder().no_proxy().build().map_err(|e| Unfit(e.to_string()))?;
        let at_once = settings.at_once;
        let office = Arc::new(Office {
            settings,
            desk,
            book,
            world,
            next: AtomicU64::new(0),
            out: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..at_once {
            tasks.spawn(submit::work(Arc::clone(&office)));
        }
        for who in 0..office.desk.people.len() {
            tasks.spawn(people::decide(Arc::clone(&office), who));
            tasks.spawn(answers::answer(Arc::clone(&office), who));
        }
        Ok(Self { office, tasks })
    }

    /// From now on no new runs; people go on deciding.
    pub fn pause(&self) {
        self.office.is_paused.store(true, Ordering::Release);
    }

    /// New runs again.
    pub fn resume(&self) {
        self.office.is_paused.store(false, Ordering::Release);
    }

    /// Runs that were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.office.book.count()
    }

    /// Runs that are not known to have ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.office.book.open_runs().len()
    }

    /// The tenant's key, for the oracle.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.office.desk.owner.clone()
    }

    /// Starts a run that servers may be made to die of (tool `poison`), and waits for its end. Its stop reason; `None`:
    /// it did not end in time.
    pub async fn poison(&self, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        let n = self.office.next.fetch_add(1, Ordering::SeqCst);
        let run_id = submit::submit(&self.office, &Job::poison(self.office.settings.seed, n)).await?;
        while Instant::now() < until {
            let ask = Ask::get(format!("/v1/runs/{run_id}")).until(until);
            let run = self.office.desk.owner.ask(&ask).await.filter(Answer::is_ok)?.body;
            if self.office.book.shown(&run) {
                return run["stop_reason"].as_str().map(str::to_owned);
            }
            sleep(LOOK).await;
        }
        None
    }

    /// Makes no new runs, goes on deciding, and returns when every accepted run has ended, or `deadline` is over.
    pub async fn finish(&mut self, deadline: Duration) {
        self.pause();
        let until = Instant::now() + deadline;
        while Instant::now() < until {
            let open = self.office.book.open_runs();
            // A request that nobody answered yet may still become a run.
            if open.is_empty() && self.office.is_idle() {
                break;
            }
            let looks = open.iter().map(|run| self.office.look(&run.run_id, until));
            futures::stream::iter(looks).buffer_unordered(8).collect::<Vec<_>>().await;
            sleep(LOOK).await;
        }
        // Streams that are behind get a moment; what they still miss then is looked up.
        sleep(Duration::from_millis(500)).await;
        self.tasks.shutdown().await;
    }

    /// Returns when all that the clients know is on the disk.
    ///
    /// # Errors
    /// It can't be written.
    pub async fn settled(&self) -> io::Result<()> {
        self.office.book.settled().await
    }

    /// Returns when all that the world has logged is on the disk.
    ///
    /// # Errors
    /// It can't be written, or the world is gone.
    pub async fn world_settled(&self) -> io::Result<()> {
        let url = format!("{}/settled", self.office.settings.tools_url);
        let answer = self.office.world.post(url).timeout(Duration::from_secs(30)).send().await;
        answer.and_then(reqwest::Response::error_for_status).map(drop).map_err(io::Error::other)
    }
}

impl Office {
    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// No request for a run is out.
    fn is_idle(&self) -> bool {
        self.out.load(Ordering::SeqCst) == 0
    }

    /// Looks at a run; true if it has ended.
    async fn look(&self, run_id: &str, until: Instant) -> bool {
        let ask = Ask::get(format!("/v1/runs/{run_id}")).until(until);
        match self.desk.owner.ask(&ask).await {
            Some(answer) if answer.is_ok() => self.book.shown(&answer.body),
            Some(answer) => {
                self.book.odd(&format!("GET {run_id}"), &answer);
                false
            }
            None => false,
        }
    }

    /// What the world knows of a key. From then on it stays so: a person who is told "no" may rely on it.
    async fn truth(&self, key: &str) -> Option<bool> {
        let mut url = reqwest::Url::parse(&self.settings.tools_url).ok()?.join("/truth").ok()?;
        url.query_pairs_mut().append_pair("key", key);
        let answer = self.world.get(url).timeout(Duration::from_secs(10)).send().await.ok()?;
        let answer: serde_json::Value = answer.json().await.ok()?;
        answer["applied"].as_bool()
    }
}

//! A TCP proxy in front of PostgreSQL, one for each server: it cuts, holds back, delays, and delivers a commit while it
//! drops the answer.

mod carry;
mod frames;
mod line;
mod talk;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use uuid::Uuid;

pub use line::Mode;

use super::{Error, Result};
use line::Line;

/// One server's way to the database. It has two doors with one line behind them: the second always leads to PostgreSQL
/// itself, the first through a pooler where one is set.
#[derive(Debug)]
pub struct Proxy {
    line: Arc<Line>,
    first: Door,
    second: Door,
}

#[derive(Debug)]
struct Door {
    address: SocketAddr,
    upstream: Arc<Mutex<PathBuf>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Opens both doors on loopback, towards PostgreSQL's socket.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(postgres: PathBuf) -> Result<Self> {
        let line = Arc::new(Line::default());
        let first = Door::open(Arc::clone(&line), postgres.clone()).await?;
        let second = Door::open(Arc::clone(&line), postgres).await?;
        Ok(Self { line, first, second })
    }

    /// Where new connections of the first door go from here on.
    pub fn lead_to(&self, socket: PathBuf) {
        *self.first.upstream.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    /// Where to connect; through a pooler if one is set.
    pub fn address(&self) -> SocketAddr {
        self.first.address
    }

    /// Where to connect past any pooler.
    pub fn direct_address(&self) -> SocketAddr {
        self.second.address
    }

    /// Changes how the line behaves.
    pub fn set(&self, change: impl FnOnce(&mut Mode)) {
        self.line.set(change);
    }

    /// Cuts every connection.
    pub fn cut_all(&self) {
        self.line.cut_all();
    }

    /// Back to rest; what was held back now arrives.
    pub fn heal(&self) {
        self.line.heal();
    }

    /// Lets the next so many commits through and drops their answers, each with its connection.
    pub fn drop_answers(&self, count: u64) {
        self.line.drop_answers(count);
    }

    /// Who uses it, as it has last named itself: the owner in its leases.
    pub fn user(&self) -> Option<Uuid> {
        self.line.server()
    }

    /// Answers dropped until now.
    pub fn answers_dropped(&self) -> u64 {
        self.line.answers_dropped()
    }
}

impl Door {
    async fn open(line: Arc<Line>, upstream: PathBuf) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::io("a door of a proxy"))?;
        let address = listener.local_addr().map_err(Error::io("a door of a proxy"))?;
        let upstream = Arc::new(Mutex::new(upstream));
        let accepting = tokio::spawn(accept(listener, line, Arc::clone(&upstream)));
        Ok(Self { address, upstream, accepting })
    }
}

async fn accept(listener: TcpListener, line: Arc<Line>, upstream: Arc<Mutex<PathBuf>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        if line.refuses() {
            continue;
        }
        let upstream = upstream.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::spawn(carry::carry(client, upstream, Arc::clone(&line)));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

//! Signals between processes: NOTIFY, sent apart from the transactions that cause them and coalesced; a lost one is made
//! up for by everybody's own looking.

use std::collections::HashSet;
use std::time::Duration;

use answerable_ports::{Signal, Signals};
use sqlx::postgres::PgListener;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::connect::{Store, pg_options};

const CHANNEL: &str = "answerable";
/// Signals that happen within this time go out as one.
const COALESCE: Duration = Duration::from_millis(5);
/// Pause before a listener that died is replaced.
const RECONNECT: Duration = Duration::from_millis(500);
/// PostgreSQL takes 8,000 bytes; forty bytes a signal.
const AT_ONCE: usize = 150;

impl Store {
    /// Tells other processes what this one announces, until the hub is gone.
    pub async fn send_signals(&self, server: Uuid, mut outgoing: mpsc::UnboundedReceiver<Signal>) {
        while let Some(first) = outgoing.recv().await {
            tokio::time::sleep(COALESCE).await;
            let mut signals = HashSet::from([first]);
            while signals.len() < AT_ONCE
                && let Ok(more) = outgoing.try_recv()
            {
                signals.insert(more);
            }
            let words: Vec<String> = signals.iter().map(word).collect();
            let payload = format!("{} {}", server.simple(), words.join(" "));
            let notify = sqlx::query!("SELECT pg_notify($1, $2) IS NULL AS sent", CHANNEL, payload);
            if let Err(error) = self.alone(notify).await {
                tracing::debug!(%error, "signals not sent; others will look by themselves");
            }
        }
    }
}

/// Listens to what other processes announce; a dead listener is replaced, and then everybody is told to look.
pub(crate) async fn listen(url: &str, server: Uuid, signals: &Signals) {
    loop {
        if let Err(error) = listen_once(url, server, signals).await {
            tracing::debug!(%error, "the listener died");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_once(
    url: &str,
    server: Uuid,
    signals: &Signals,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(pg_options(url)?).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    signals.tell_all();
    let own = server.simple().to_string();
    loop {
        // None: the connection was lost and made anew; something may have been missed.
        match listener.try_recv().await? {
            Some(notification) => {
                let mut words = notification.payload().split(' ');
                if words.next() != Some(own.as_str()) {
                    words.filter_map(signal).for_each(|signal| signals.tell(signal));
                }
            }
            None => signals.tell_all(),
        }
    }
}

impl Store {
    /// Listens to other processes for ever; `url` must not lead through a pooler.
    pub async fn hear_signals(&self, url: &str, server: Uuid) {
        listen(url, server, self.signals()).await;
    }
}

fn word(signal: &Signal) -> String {
    match signal {
        Signal::Progress(run) => format!("p{}", run.simple()),
        Signal::Inbox(run) => format!("i{}", run.simple()),
        Signal::Work => "w".into(),
        Signal::Deliveries => "d".into(),
        Signal::Keys => "k".into(),
    }
}

fn signal(word: &str) -> Option<Signal> {
    match word {
        "w" => Some(Signal::Work),
        "d" => Some(Signal::Deliveries),
        "k" => Some(Signal::Keys),
        _ => {
            let run = Uuid::try_parse(word.get(1..)?).ok()?;
            match word.as_bytes().first()? {
                b'p' => Some(Signal::Progress(run)),
                b'i' => Some(Signal::Inbox(run)),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let run = Uuid::from_u128(7);
        for sent in
            [Signal::Progress(run), Signal::Inbox(run), Signal::Work, Signal::Deliveries, Signal::Keys]
        {
            assert_eq!(signal(&word(&sent)), Some(sent));
        }
        for odd in ["", "x", "p", "p123", "é"] {
            assert_eq!(signal(odd), None, "{odd}");
        }
    }
}

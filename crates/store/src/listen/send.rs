//! The sending side: what happens within a few milliseconds goes out in one statement, words before the signal that tells of
//! the commit after them.

use std::collections::HashSet;
use std::time::Duration;

use answerable_ports::{RENEW, Signal, Signals};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};
use uuid::Uuid;

use super::parcel::{self, PIECE};
use super::{CHANNEL, Said, channel_of, word};
use crate::connect::Store;

/// Signals that happen within this time go out as one.
const COALESCE: Duration = Duration::from_millis(5);
/// Words are gathered this long after others went out, unless there are signals to send anyway.
const GATHER: Duration = Duration::from_millis(30);
/// PostgreSQL takes 8,000 bytes; forty bytes a signal.
const AT_ONCE: usize = 150;
/// Bytes of words in one statement.
const WORDS_AT_ONCE: usize = 256 << 10;

impl Store {
    /// Tells other processes what this one announces, until the hub is gone.
    pub async fn send_signals(&self, server: Uuid, mut outgoing: mpsc::UnboundedReceiver<Signal>) {
        let mut renew = interval_at(Instant::now() + RENEW, RENEW);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut words_from = Instant::now();
        loop {
            let mut signals = HashSet::new();
            tokio::select! {
                first = outgoing.recv() => match first {
                    Some(first) => signals.extend([first]),
                    None => return,
                },
                () = words_due(self.signals(), words_from) => {}
                _ = renew.tick() => self.signals().renew(),
            }
            sleep(COALESCE).await;
            while signals.len() < AT_ONCE
                && let Ok(more) = outgoing.try_recv()
            {
                signals.insert(more);
            }
            if self.notify(server, signals).await {
                words_from = Instant::now() + GATHER;
            }
        }
    }

    /// Sends these, and the words there are. Whether there were words.
    async fn notify(&self, server: Uuid, signals: HashSet<Signal>) -> bool {
        let outgoing = self.signals().take_outgoing(PIECE, WORDS_AT_ONCE);
        let words = parcel::pack(&outgoing.parcels).into_iter().map(|(to, words)| (channel_of(to), words));
        let said = signals.into_iter().map(Said::Signal).chain(outgoing.hears.into_iter().map(Said::Hears));
        let said: Vec<String> = said.map(|said| word(&said)).collect();
        let said = said.chunks(AT_ONCE).map(|said| format!("{} {}", server.simple(), said.join(" ")));
        let (channels, payloads): (Vec<String>, Vec<String>) =
            words.chain(said.map(|said| (CHANNEL.to_owned(), said))).unzip();
        if payloads.is_empty() {
            return false;
        }
        let told = sqlx::query!(
            r#"SELECT count(*) AS "sent!" FROM unnest($1::text[], $2::text[]) AS told (channel, payload)
               WHERE pg_notify(channel, payload) IS NOT NULL"#,
            &channels,
            &payloads,
        );
        if let Err(error) = self.alone(told).await {
            tracing::debug!(%error, "signals not sent; others will look by themselves");
        }
        !outgoing.parcels.is_empty()
    }
}

/// Returns when words may leave and there are some, or others are to be told what is heard here.
async fn words_due(signals: &Signals, from: Instant) {
    sleep_until(from).await;
    signals.to_send().await;
}

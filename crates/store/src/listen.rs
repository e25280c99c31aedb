//! Signals between processes: NOTIFY, sent apart from the transactions that cause them and coalesced (`send`); a lost one is
//! made up for by everybody's own looking. Words of replies go the same way to the servers that hear them (`parcel`); lost
//! ones are lost.

mod parcel;
mod send;

use std::time::Duration;

use answerable_ports::{Signal, Signals};
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::connect::{Store, pg_options};

const CHANNEL: &str = "answerable";
/// Pause before a listener that died is replaced.
const RECONNECT: Duration = Duration::from_millis(500);

/// What one server is told alone.
fn channel_of(server: Uuid) -> String {
    format!("{CHANNEL}_{}", server.simple())
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
    let own = channel_of(server);
    listener.listen_all([CHANNEL, &own]).await?;
    begin_again(signals);
    loop {
        match listener.try_recv().await? {
            Some(notification) if notification.channel() == own => {
                for (run, words) in parcel::read(notification.payload()) {
                    signals.heard(run, &words);
                }
            }
            Some(notification) => hear(notification.payload(), server, signals),
            // The connection was lost and made anew; something may have been missed.
            None => begin_again(signals),
        }
    }
}

fn begin_again(signals: &Signals) {
    signals.tell_all();
    signals.announce(Signal::WhoHears);
}

/// Takes what a server, named first, has announced to all.
fn hear(payload: &str, own: Uuid, signals: &Signals) {
    let mut words = payload.split(' ');
    let Some(from) = words.next().and_then(|word| Uuid::try_parse(word).ok()).filter(|from| *from != own)
    else {
        return;
    };
    for said in words.filter_map(said) {
        match said {
            Said::Signal(signal) => {
                signals.tell(signal);
                if let Signal::Progress(run) = signal {
                    signals.worked_elsewhere(run);
                }
            }
            Said::Hears(run) => signals.heard_elsewhere(run, from),
        }
    }
}

impl Store {
    /// Listens to other processes for ever; `url` must not lead through a pooler.
    pub async fn hear_signals(&self, url: &str, server: Uuid) {
        listen(url, server, self.signals()).await;
    }
}

/// What is announced to all. Servers of other versions may not know all of it, and pass over what they don't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Signal(Signal),
    /// The server hears the words of this run.
    Hears(Uuid),
}

fn word(said: &Said) -> String {
    match said {
        Said::Signal(Signal::Progress(run)) => format!("p{}", run.simple()),
        Said::Signal(Signal::Inbox(run)) => format!("i{}", run.simple()),
        Said::Signal(Signal::Work) => "w".into(),
        Said::Signal(Signal::Deliveries) => "d".into(),
        Said::Signal(Signal::Keys) => "k".into(),
        Said::Signal(Signal::WhoHears) => "q".into(),
        Said::Hears(run) => format!("h{}", run.simple()),
    }
}

fn said(word: &str) -> Option<Said> {
    let signal = match word {
        "w" => Signal::Work,
        "d" => Signal::Deliveries,
        "k" => Signal::Keys,
        "q" => Signal::WhoHears,
        _ => {
            let run = Uuid::try_parse(word.get(1..)?).ok()?;
            match word.as_bytes().first()? {
                b'p' => Signal::Progress(run),
                b'i' => Signal::Inbox(run),
                b'h' => return Some(Said::Hears(run)),
                _ => return None,
            }
        }
    };
    Some(Said::Signal(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let run = Uuid::from_u128(7);
        let signals = [
            Signal::Progress(run),
            Signal::Inbox(run),
            Signal::Work,
            Signal::Deliveries,
            Signal::Keys,
            Signal::WhoHears,
        ];
        for sent in signals.map(Said::Signal).into_iter().chain([Said::Hears(run)]) {
            assert_eq!(said(&word(&sent)), Some(sent));
        }
        for odd in ["", "x", "p", "p123", "é"] {
            assert_eq!(said(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_a_server_says_itself_and_what_nobody_says_is_passed_over() {
        let (signals, _out) = Signals::new();
        let (own, other, run) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(7));
        let progress = signals.watch(answerable_core::id::RunId(run));
        let say = |from: &str| {
            hear(&format!("{from} x {}", word(&Said::Signal(Signal::Progress(run)))), own, &signals)
        };
        for from in ["", "x", &own.simple().to_string()] {
            say(from);
            assert!(!progress.has_changed().expect("a sender"), "{from}");
        }
        say(&other.simple().to_string());
        assert!(progress.has_changed().expect("a sender"));
        // Who works on a run whose words are heard here is told so.
        let _hearing = signals.hear(answerable_core::id::RunId(run));
        assert_eq!(signals.take_outgoing(99, 99).hears, [run]);
        say(&other.simple().to_string());
        assert_eq!(signals.take_outgoing(99, 99).hears, Vec::<Uuid>::new(), "it knows");
    }
}

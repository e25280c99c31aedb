//! An issuer whom the operator trusts, and its keys as they were last seen.

use std::sync::Arc;
use std::time::Duration;

use answerable_ports::{Clock, Identity, NotVouched, Vouched};
use answerable_tools::GuardedClient;
use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::fetch::{NoKeys, Source};
use crate::{Claims, Fault, KeySet, Rules, Token};

/// When keys are asked for, and how long they serve.
const TIMES: Times = Times {
    fresh: Duration::from_secs(300),
    at_most: Duration::from_secs(30),
    stale: Duration::from_secs(24 * 3600),
    asking: Duration::from_secs(10),
    patience: Duration::from_secs(3),
};

#[derive(Debug, Clone, Copy)]
struct Times {
    /// The keys are asked for anew so often.
    fresh: Duration,
    /// And at most so often, whatever tokens come and whatever fails.
    at_most: Duration,
    /// Without an answer they are believed for so long.
    stale: Duration,
    /// How long asking may take.
    asking: Duration,
    /// How long a request waits for keys that are being asked for.
    patience: Duration,
}

/// What the operator says of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerConfig {
    /// What its tokens must say.
    pub rules: Rules,
    /// Where its keys are; otherwise it is asked for that.
    pub jwks_url: Option<String>,
}

/// An issuer of tokens.
pub struct Issuer {
    rules: Rules,
    source: Source,
    clock: Clock,
    times: Times,
    known: watch::Sender<Known>,
    wanted: Notify,
}

/// What is known of its keys.
#[derive(Debug, Default)]
struct Known {
    /// The keys, and when they came.
    keys: Option<(Arc<KeySet>, Instant)>,
    /// When they were asked for last.
    asked: Option<Instant>,
    /// Whether there was no answer yet.
    asking: bool,
}

impl Issuer {
    /// Begins to keep an issuer's keys, until `stop`. `client` must reach it.
    pub fn start(
        config: IssuerConfig,
        client: GuardedClient,
        clock: Clock,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Self::start_by(TIMES, config, client, clock, stop)
    }

    fn start_by(
        times: Times,
        config: IssuerConfig,
        client: GuardedClient,
        clock: Clock,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let IssuerConfig { rules, jwks_url } = config;
        let source = Source { client, issuer: rules.issuer.clone(), jwks_url };
        let known = watch::Sender::new(Known { asking: true, ..Known::default() });
        let issuer = Arc::new(Self { rules, source, clock, times, known, wanted: Notify::new() });
        let keeping = Arc::clone(&issuer);
        tokio::spawn(async move { stop.run_until_cancelled(keeping.keep()).await });
        issuer
    }

    async fn keep(&self) {
        let mut failing = false;
        loop {
            self.known.send_modify(|known| (known.asking, known.asked) = (true, Some(Instant::now())));
            let came = timeout(self.times.asking, self.source.fetch()).await;
            let came =
                came.unwrap_or_else(|_| Err(NoKeys::NoAnswer(format!("not within {:?}", self.times.asking))));
            let next = if came.is_ok() { self.times.fresh } else { self.times.at_most };
            tell(&came, failing, &self.rules.issuer);
            failing = came.is_err();
            self.known.send_modify(|known| {
                known.asking = false;
                if let Ok(keys) = came {
                    known.keys = Some((Arc::new(keys), Instant::now()));
                }
            });
            self.until_due(next).await;
        }
    }

    /// Waits until the keys are to be asked for again: after `next`, or sooner if somebody wants it.
    async fn until_due(&self, next: Duration) {
        let asked = self.known.borrow().asked.unwrap_or_else(Instant::now);
        tokio::select! {
            () = sleep_until(asked + next) => {}
            () = self.wanted.notified() => sleep_until(asked + self.times.at_most).await,
        }
    }

    /// The keys that are believed.
    fn keys(&self) -> Option<Arc<KeySet>> {
        let known = self.known.borrow();
        let (keys, came) = known.keys.as_ref()?;
        (came.elapsed() < self.times.stale).then(|| Arc::clone(keys))
    }

    /// Has the keys asked for once more, unless that was just done, and waits a little for them.
    async fn renewed(&self) {
        let mut known = self.known.subscribe();
        {
            let now = known.borrow_and_update();
            if !now.asking && now.asked.is_some_and(|at| at.elapsed() < self.times.at_most) {
                return;
            }
            if !now.asking {
                self.wanted.notify_one();
            }
        }
        let answered =
            |known: &Known| !known.asking && known.asked.is_some_and(|at| at.elapsed() < self.times.at_most);
        // Whoever waited long enough is told what is known by now.
        let _ = timeout(self.times.patience, known.wait_for(answered)).await;
    }

    async fn judge(&self, text: &str) -> Result<Vouched, Judged> {
        let token = Token::read(text)?;
        let vouched = Claims::of(&token)?.vouch(&self.rules, self.clock.now())?;
        if self.keys().is_none() {
            self.renewed().await;
        }
        let keys = self.keys().ok_or(Judged::NoKeys)?;
        match keys.verify(&token) {
            // There may be a newer key; of one without a name, too.
            Err(Fault::UnknownKey) => {}
            Err(Fault::Signature) if token.kid.is_none() => {}
            verified => return Ok(verified.map(|()| vouched)?),
        }
        self.renewed().await;
        self.keys().ok_or(Judged::NoKeys)?.verify(&token)?;
        Ok(vouched)
    }
}

/// What came of judging a token that isn't good.
enum Judged {
    Bad(Fault),
    NoKeys,
}

impl From<Fault> for Judged {
    fn from(fault: Fault) -> Self {
        Self::Bad(fault)
    }
}

#[async_trait]
impl Identity for Issuer {
    async fn vouched(&self, token: &str) -> Result<Vouched, NotVouched> {
        self.judge(token).await.map_err(|judged| match judged {
            Judged::Bad(fault) => {
                tracing::debug!(%fault, "a token was refused");
                NotVouched::Refused
            }
            Judged::NoKeys => NotVouched::Away,
        })
    }
}

/// Logs what changed.
fn tell(came: &Result<KeySet, NoKeys>, was_failing: bool, issuer: &str) {
    match came {
        Err(error) if !was_failing => {
            tracing::warn!(issuer, %error, "the issuer's keys can't be had; those that are known serve for a day");
        }
        Err(error) => tracing::debug!(issuer, %error, "the issuer's keys still can't be had"),
        Ok(_) if was_failing => tracing::info!(issuer, "the issuer's keys are there again"),
        Ok(_) => tracing::debug!(issuer, "the issuer's keys were asked for"),
    }
}

#[cfg(test)]
#[path = "issuer/tests.rs"]
mod tests;

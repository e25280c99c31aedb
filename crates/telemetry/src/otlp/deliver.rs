//! Delivers what was taken out of the outbox, and finds the batch that a collector refuses among those that it takes.

use std::collections::VecDeque;

use std::time::{Duration, Instant};

use super::exporter::{Parcel, Sink};
use super::wire::NotTaken;

/// Bytes that a request is filled with: collectors take 4 MiB by default.
const REQUEST_BYTES: usize = 2 << 20;
/// Refusals in a row, with nothing taken, that speak of the collector and not of the spans.
const VAIN_TRIES: u32 = 32;

/// What became of batches, by their numbers in the outbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// They arrived, or there was nothing to send.
    pub(crate) arrived: Vec<i64>,
    /// The collector refuses them alone and takes others: they never will arrive.
    pub(crate) refused: Vec<i64>,
    /// They are to be sent another time.
    pub(crate) left: Vec<i64>,
    /// Spans that the collector has.
    pub(crate) exported: u64,
    /// Spans that it doesn't want.
    pub(crate) dropped: u64,
    /// Why some are left.
    pub(crate) trouble: Option<Trouble>,
    /// What the collector says to what it took or doesn't want.
    pub(crate) remark: Option<String>,
}

/// The collector takes nothing now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What went wrong.
    pub(crate) why: String,
    /// The pause that it asks for.
    pub(crate) after: Option<Duration>,
}

/// Sends `parcels` in as few requests as go. No request begins after `until`.
///
/// A request that is refused for good is sent again in halves, down to the batch that is to blame. Whether it is the batch
/// and not the collector shows in others being taken: without that nothing is dropped.
pub(crate) async fn deliver(sink: &impl Sink, parcels: Vec<Parcel>, until: Instant) -> Delivered {
    let mut delivery = Delivery::default();
    let (full, empty): (Vec<Parcel>, Vec<Parcel>) =
        parcels.into_iter().partition(|parcel| !parcel.spans.is_empty());
    delivery.told.arrived = numbers(&empty);
    delivery.requests = requests(full);
    while let Some(parcels) = delivery.requests.pop_front() {
        let late = Instant::now() >= until;
        if late || delivery.told.trouble.is_some() {
            delivery.told.left.extend(numbers(&parcels));
            continue;
        }
        match sink.send(&parcels).await {
            Ok(taken) => delivery.taken(&parcels, taken.rejected, taken.message),
            Err(NotTaken::Refused(why)) => delivery.refused(parcels, why),
            Err(NotTaken::NotNow { why, after }) => {
                delivery.told.left.extend(numbers(&parcels));
                delivery.told.trouble = Some(Trouble { why, after });
            }
        }
    }
    delivery.end()
}

#[derive(Default)]
struct Delivery {
    requests: VecDeque<Vec<Parcel>>,
    /// Refused when they were alone in a request, and why the last one was.
    doubtful: Vec<Parcel>,
    doubt: String,
    /// A request was taken, so the collector isn't what is wrong.
    proven: bool,
    in_vain: u32,
    told: Delivered,
}

impl Delivery {
    fn taken(&mut self, parcels: &[Parcel], rejected: u64, message: String) {
        self.proven = true;
        let sent = Parcel::spans_of(parcels);
        self.told.arrived.extend(numbers(parcels));
        self.told.exported += sent.saturating_sub(rejected);
        self.told.dropped += rejected.min(sent);
        if !message.is_empty() {
            self.told.remark = Some(message);
        } else if rejected > 0 {
            self.told.remark = Some("it gives no reason".into());
        }
    }

    /// Halves go on alone, in their order, until it is one batch that is refused.
    fn refused(&mut self, mut parcels: Vec<Parcel>, why: String) {
        self.in_vain += 1;
        if !self.proven && self.in_vain >= VAIN_TRIES {
            self.told.left.extend(numbers(&parcels));
            self.told.trouble = Some(Trouble { why, after: None });
        } else if parcels.len() == 1 {
            self.doubtful.append(&mut parcels);
            self.doubt = why;
        } else {
            let second = parcels.split_off(parcels.len() / 2);
            self.requests.push_front(second);
            self.requests.push_front(parcels);
        }
    }

    fn end(mut self) -> Delivered {
        let doubtful = numbers(&self.doubtful);
        match (doubtful.is_empty(), self.proven) {
            (true, _) => {}
            (false, true) => {
                self.told.dropped += Parcel::spans_of(&self.doubtful);
                self.told.refused = doubtful;
                self.told.remark = Some(self.doubt);
            }
            (false, false) => {
                self.told.left.extend(doubtful);
                self.told.trouble.get_or_insert(Trouble { why: self.doubt, after: None });
            }
        }
        self.told
    }
}

fn numbers(parcels: &[Parcel]) -> Vec<i64> {
    parcels.iter().map(|parcel| parcel.number).collect()
}

/// As many parcels a request as fit; one that is too large by itself goes alone.
fn requests(parcels: Vec<Parcel>) -> VecDeque<Vec<Parcel>> {
    let mut requests: VecDeque<Vec<Parcel>> = VecDeque::new();
    let mut bytes = 0;
    for parcel in parcels {
        bytes += parcel.bytes;
        match requests.back_mut() {
            Some(request) if bytes <= REQUEST_BYTES => request.push(parcel),
            _ => {
                bytes = parcel.bytes;
                requests.push_back(vec![parcel]);
            }
        }
    }
    requests
}

#[cfg(test)]
#[path = "deliver_tests.rs"]
mod tests;

use answerable_core::id::RunId;

use super::*;
use crate::signals::board::{KEPT, Reply};

const RUN: RunId = RunId(Uuid::from_u128(1));
const OTHER: RunId = RunId(Uuid::from_u128(2));
const REPLY: Reply = Reply { epoch: 1, step: 1, attempt: 1 };
const HERE: Uuid = Uuid::from_u128(10);
const THERE: Uuid = Uuid::from_u128(11);

fn signals() -> Signals {
    Signals::new().0
}

fn sent(signals: &Signals) -> Vec<(Uuid, u64, String)> {
    let parcels = signals.take_outgoing(1000, 100_000).parcels;
    parcels.into_iter().map(|parcel| (parcel.to, parcel.words.offset, parcel.words.text)).collect()
}

#[test]
fn words_leave_only_for_those_who_hear_them() {
    let signals = signals();
    let _here = signals.hear(RUN);
    let speaker = signals.speaker(RUN, REPLY);
    speaker.say("Hel");
    signals.heard_elsewhere(OTHER.0, THERE);
    assert_eq!(sent(&signals), []);
    assert!(locked(&signals.0.elsewhere).due.is_empty());
    // From the beginning, and each word once.
    signals.heard_elsewhere(RUN.0, THERE);
    assert_eq!(sent(&signals), [(THERE, 0, "Hel".into())]);
    signals.heard_elsewhere(RUN.0, THERE);
    speaker.say("l");
    speaker.say("o");
    assert_eq!(sent(&signals), [(THERE, 3, "lo".into())]);
    assert_eq!(sent(&signals), []);
}

#[test]
fn the_last_words_leave_after_their_speaker_has_gone() {
    let signals = signals();
    signals.heard_elsewhere(RUN.0, THERE);
    signals.speaker(RUN, REPLY).say("Bye");
    // And behind them that these were the last.
    assert_eq!(sent(&signals), [(THERE, 0, "Bye".into()), (THERE, 3, String::new())]);
}

#[test]
fn what_came_from_elsewhere_is_not_sent_on() {
    let signals = signals();
    let mut here = signals.hear(RUN);
    signals.heard_elsewhere(RUN.0, THERE);
    signals.heard(RUN.0, &Words { reply: REPLY, offset: 0, text: "Hello".into() });
    signals.heard_elsewhere(RUN.0, Uuid::from_u128(12));
    assert_eq!(here.take(99).map(|words| words.text).as_deref(), Some("Hello"));
    assert_eq!(sent(&signals), []);
}

#[test]
fn an_interest_that_is_not_renewed_ends() {
    let (mut elsewhere, now) = (Elsewhere::default(), Instant::now());
    assert!(elsewhere.heard_by(RUN.0, THERE, now));
    assert!(!elsewhere.heard_by(RUN.0, THERE, now + RENEW));
    elsewhere.forget(now + HOLDS);
    assert_eq!(elsewhere.heard.len(), 1);
    elsewhere.forget(now + RENEW + HOLDS);
    assert_eq!(elsewhere.heard.len(), 0);
    for server in 0..100 {
        elsewhere.heard_by(RUN.0, Uuid::from_u128(server), now);
    }
    assert_eq!(elsewhere.heard[&RUN.0].len(), MAX_SERVERS);
}

#[test]
fn others_are_told_what_is_heard_here_and_owned_elsewhere() {
    let signals = signals();
    let hears = |signals: &Signals| signals.take_outgoing(1000, 1000).hears;
    let owned = signals.own_inbox(RUN);
    let here = signals.hear(RUN);
    signals.renew();
    assert_eq!(hears(&signals), Vec::<Uuid>::new());
    // Nothing is said on it then; the next who does learns of it at once, and once.
    drop(owned);
    assert_eq!(hears(&signals), Vec::<Uuid>::new());
    signals.worked_elsewhere(RUN.0);
    assert_eq!(hears(&signals), [RUN.0]);
    signals.worked_elsewhere(RUN.0);
    signals.worked_elsewhere(OTHER.0);
    assert_eq!(hears(&signals), Vec::<Uuid>::new());
    signals.tell(crate::Signal::WhoHears);
    assert_eq!(hears(&signals), [RUN.0]);
    drop(here);
    signals.renew();
    assert_eq!(hears(&signals), Vec::<Uuid>::new());
}

#[test]
fn a_flood_holds_up_no_other_run_and_keeps_no_more_than_a_board() {
    let signals = signals();
    [RUN, OTHER].iter().for_each(|run| signals.heard_elsewhere(run.0, THERE));
    let (flood, quiet) = (signals.speaker(RUN, REPLY), signals.speaker(OTHER, REPLY));
    flood.say(&"x".repeat(1 << 20));
    quiet.say("words");
    let first = signals.take_outgoing(1000, 2000).parcels;
    assert!(first.iter().any(|parcel| parcel.run == OTHER.0), "{first:?}");
    let mut left = 0;
    loop {
        let parcels = signals.take_outgoing(1000, 2000).parcels;
        if parcels.is_empty() {
            break;
        }
        left += parcels.iter().map(|parcel| parcel.words.text.len()).sum::<usize>();
    }
    assert!((KEPT - 2000..=2 * KEPT).contains(&left), "{left}");
}

#[test]
fn two_servers_hear_the_same_through_what_is_sent() {
    let (owner, watcher) = (signals(), signals());
    let mut hearing = watcher.hear(RUN);
    for run in watcher.take_outgoing(1000, 1000).hears {
        owner.heard_elsewhere(run, HERE);
    }
    let speaker = owner.speaker(RUN, REPLY);
    let mut heard = String::new();
    for piece in ["Grüß ", "Gott", ", ", "Welt"] {
        speaker.say(piece);
        for parcel in owner.take_outgoing(3, 1000).parcels {
            assert_eq!(parcel.to, HERE);
            watcher.heard(parcel.run, &parcel.words);
        }
        heard.extend(std::iter::from_fn(|| hearing.take(2)).map(|words| words.text));
    }
    assert_eq!(heard, "Grüß Gott, Welt");
}

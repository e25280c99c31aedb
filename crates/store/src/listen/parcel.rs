//! Words of replies on their way to one server: several pieces in one payload, each with its length before it, so that text
//! may hold anything.
//!
//! ```text
//! {run} {epoch} {step} {attempt} {offset} {bytes}\n{text}…
//! ```

use std::fmt::Write as _;

use answerable_ports::{Parcel, Reply, Words};
use uuid::Uuid;

/// PostgreSQL takes less than 8,000 bytes.
pub(super) const PAYLOAD: usize = 7_990;
/// Bytes of text in one piece: its head takes 32 + 20 + 10 + 10 + 20 + 4 digits and six separators at most.
pub(super) const PIECE: usize = PAYLOAD - 102;

/// Packs pieces, each with [`PIECE`] bytes of text at most, in their order: which server, and the payload for it.
pub(super) fn pack(parcels: &[Parcel]) -> Vec<(Uuid, String)> {
    let mut packed: Vec<(Uuid, String)> = Vec::new();
    for parcel in parcels {
        let text = write(parcel);
        // Only the newest payload of a server may be added to: they arrive in this order.
        match packed.iter_mut().rev().find(|(to, _)| *to == parcel.to) {
            Some((_, payload)) if payload.len() + text.len() <= PAYLOAD => payload.push_str(&text),
            _ => packed.push((parcel.to, text)),
        }
    }
    packed
}

fn write(parcel: &Parcel) -> String {
    let Parcel { run, words: Words { reply, offset, text }, .. } = parcel;
    let mut written = String::with_capacity(text.len() + 102);
    let (run, Reply { epoch, step, attempt }) = (run.simple(), *reply);
    // Writing to a string can't fail.
    let _ = write!(written, "{run} {epoch} {step} {attempt} {offset} {}\n{text}", text.len());
    written
}

/// The pieces of a payload; from where it can't be read on, nothing.
pub(super) fn read(mut payload: &str) -> impl Iterator<Item = (Uuid, Words)> {
    std::iter::from_fn(move || {
        let (piece, rest) = read_one(payload)?;
        payload = rest;
        Some(piece)
    })
}

fn read_one(payload: &str) -> Option<((Uuid, Words), &str)> {
    let (head, rest) = payload.split_once('\n')?;
    let mut fields = head.split(' ');
    let run = Uuid::try_parse(fields.next()?).ok()?;
    let epoch = fields.next()?.parse().ok()?;
    let step = fields.next()?.parse().ok()?;
    let attempt = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    let (text, rest) = rest.split_at_checked(fields.next()?.parse().ok()?)?;
    let words = Words { reply: Reply { epoch, step, attempt }, offset, text: text.to_owned() };
    Some(((run, words), rest))
}

#[cfg(test)]
mod tests {
    use answerable_core::id::RunId;
    use answerable_ports::Signals;
    use proptest::prelude::*;

    use super::*;

    const SERVER: Uuid = Uuid::from_u128(u128::MAX);

    fn any_parcel() -> impl Strategy<Value = Parcel> {
        let reply = (any::<i64>(), any::<u32>(), any::<u32>());
        let reply = reply.prop_map(|(epoch, step, attempt)| Reply { epoch, step, attempt });
        let text = prop_oneof![any::<String>(), "[a-z 0-9\n]{0,200}", "\\PC{0,900}"];
        (0u128..3, any::<u128>(), reply, any::<u64>(), text).prop_map(|(to, run, reply, offset, text)| {
            let text = text[..text.floor_char_boundary(PIECE)].to_owned();
            Parcel {
                to: Uuid::from_u128(to),
                run: Uuid::from_u128(run),
                words: Words { reply, offset, text },
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_again_in_order(parcels in prop::collection::vec(any_parcel(), 0..30)) {
            let packed = pack(&parcels);
            for server in (0..3).map(Uuid::from_u128) {
                let wanted = parcels.iter().filter(|parcel| parcel.to == server);
                let wanted: Vec<_> = wanted.map(|parcel| (parcel.run, parcel.words.clone())).collect();
                let got = packed.iter().filter(|(to, _)| *to == server).flat_map(|(_, payload)| read(payload));
                prop_assert_eq!(got.collect::<Vec<_>>(), wanted);
            }
            prop_assert!(packed.iter().all(|(_, payload)| payload.len() <= PAYLOAD));
        }

        #[test]
        fn any_text_cut_and_put_together_is_the_same(
            pieces in prop::collection::vec("\\PC{0,3000}|[äß😀\n\" ]{0,3000}", 0..6),
            turns in prop::collection::vec(any::<bool>(), 6),
        ) {
            let (run, reply) = (RunId(Uuid::from_u128(1)), Reply { epoch: 1, step: 1, attempt: 1 });
            let (owner, watcher) = (Signals::new().0, Signals::new().0);
            owner.heard_elsewhere(run.0, SERVER);
            let mut hearing = watcher.hear(run);
            let (speaker, mut heard) = (owner.speaker(run, reply), String::new());
            for (piece, sends) in pieces.iter().zip(turns.into_iter().chain([true])) {
                speaker.say(piece);
                if sends {
                    for (_, payload) in pack(&owner.take_outgoing(PIECE, 1 << 20).parcels) {
                        read(&payload).for_each(|(run, words)| watcher.heard(run, &words));
                    }
                    heard.extend(std::iter::from_fn(|| hearing.take(1 << 20)).map(|words| words.text));
                }
            }
            for (_, payload) in pack(&owner.take_outgoing(PIECE, 1 << 20).parcels) {
                prop_assert!(payload.len() <= PAYLOAD);
                read(&payload).for_each(|(run, words)| watcher.heard(run, &words));
            }
            heard.extend(std::iter::from_fn(|| hearing.take(1 << 20)).map(|words| words.text));
            prop_assert_eq!(heard, pieces.concat());
        }

        #[test]
        fn odd_payloads_are_no_words(payload in any::<String>()) {
            prop_assert_eq!(read(&payload).count(), 0);
        }
    }

    #[test]
    fn the_longest_head_leaves_room_for_a_piece() {
        let reply = Reply { epoch: i64::MIN, step: u32::MAX, attempt: u32::MAX };
        let words = Words { reply, offset: u64::MAX, text: "x".repeat(PIECE) };
        let packed = pack(&[Parcel { to: SERVER, run: SERVER, words }]);
        assert!((PAYLOAD - 8..=PAYLOAD).contains(&packed[0].1.len()), "{}", packed[0].1.len());
    }

    #[test]
    fn what_is_cut_is_not_read_on() {
        let words =
            Words { reply: Reply { epoch: 1, step: 2, attempt: 3 }, offset: 4, text: "Hellö".into() };
        let written = write(&Parcel { to: SERVER, run: SERVER, words: words.clone() });
        assert_eq!(read(&(written.clone() + &written)).count(), 2);
        for cut in (0..written.len()).filter(|cut| written.is_char_boundary(*cut)) {
            assert_eq!(read(&written[..cut]).count(), 0, "{cut}");
            assert_eq!(
                read(&(written.clone() + &written[..cut])).collect::<Vec<_>>(),
                [(SERVER, words.clone())]
            );
        }
    }
}

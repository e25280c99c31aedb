//! Whatever is done to a chain afterwards is found.

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::audit::{Act, Action, Actor, Entry, Origin, Place};
use crate::id::{AuditId, KeyId, TenantId};

fn origin(n: u128) -> Origin {
    let user = n.is_multiple_of(2).then(|| format!("user {n}"));
    let place = Place { address: Some(format!("10.0.0.{n}")), ..Place::default() };
    Origin { actor: Actor::Key { key_id: KeyId(Uuid::from_u128(n)), user }, place }
}

/// A chain of so many entries, as it is shown.
fn chain(owner: Option<TenantId>, length: u128) -> Vec<Value> {
    let mut head = Head::default();
    let mut shown = Vec::new();
    for n in 1..=length {
        let action = Action::ALL[usize::try_from(n).expect("small") % Action::ALL.len()];
        let act =
            Act::new(action, format!("thing {n}"), json!({"n": 9_007_199_254_740_993_u64, "gone": null}));
        let id = AuditId(Uuid::from_u128(n));
        let entry = Entry::after(&head, id, "2026-01-02T03:04:05.678Z", owner, &origin(n), &act);
        head = entry.head();
        shown.push(entry.to_json());
    }
    shown
}

fn tenant(n: u128) -> Option<TenantId> {
    Some(TenantId(Uuid::from_u128(n)))
}

/// The first entry that can't be where it is, and why.
fn broken(shown: &[Value]) -> Option<(usize, Fault)> {
    let mut chain = Chain::default();
    shown.iter().enumerate().find_map(|(place, entry)| Some((place, chain.check(entry).err()?)))
}

#[test]
fn a_chain_as_it_was_written_is_whole() {
    for owner in [tenant(7), None] {
        let shown = chain(owner, 5);
        let mut read = Chain::default();
        shown.iter().for_each(|entry| assert_eq!(read.check(entry), Ok(())));
        assert_eq!(read.head().seq, 5);
        assert_eq!(read.head().hash.as_deref(), shown[4]["hash"].as_str());
        assert_eq!(shown[0]["detail"], json!({"n": 9_007_199_254_740_993_u64}), "nulls are left out");
    }
}

#[test]
fn a_chain_is_the_same_through_text() {
    let text: Vec<String> = chain(tenant(7), 3).iter().map(Value::to_string).collect();
    let again: Vec<Value> = text.iter().map(|line| crate::json::parse(line).expect("JSON")).collect();
    assert_eq!(broken(&again), None);
}

#[test]
fn a_part_goes_on_where_another_ended() {
    let shown = chain(tenant(7), 4);
    let hash = shown[1]["hash"].as_str().map(str::to_owned);
    let mut part = Chain::going_on(Head { seq: 2, hash: hash.clone() });
    assert_eq!(part.check(&shown[2]), Ok(()));
    let mut other = Chain::going_on(Head { seq: 2, hash: shown[0]["hash"].as_str().map(str::to_owned) });
    assert_eq!(other.check(&shown[2]), Err(Fault::OtherBefore));
    let mut early = Chain::going_on(Head { seq: 1, hash });
    assert_eq!(early.check(&shown[2]), Err(Fault::OtherPlace { wanted: 2 }));
}

#[test]
fn dropped_doubled_swapped_and_foreign_entries_are_found() {
    let shown = chain(tenant(7), 5);
    for place in 0..4 {
        let mut dropped = shown.clone();
        dropped.remove(place);
        assert_eq!(broken(&dropped).map(|(at, _)| at), Some(place), "dropped");
        let mut doubled = shown.clone();
        doubled.insert(place, shown[place].clone());
        assert_eq!(broken(&doubled).map(|(at, _)| at), Some(place + 1), "doubled");
        let mut swapped = shown.clone();
        swapped.swap(place, place + 1);
        assert_eq!(broken(&swapped).map(|(at, _)| at), Some(place), "swapped");
        let mut foreign = shown.clone();
        foreign[place] = chain(tenant(8), 5)[place].clone();
        assert!(broken(&foreign).is_some_and(|(at, _)| at == place || at == place + 1), "foreign");
    }
}

#[test]
fn an_entry_that_is_forged_whole_breaks_the_one_after_it() {
    let shown = chain(tenant(7), 3);
    let head = Head { seq: 1, hash: shown[0]["hash"].as_str().map(str::to_owned) };
    let act = Act::new(Action::KeyRevoke, "another thing", json!({}));
    let forged = Entry::after(
        &head,
        AuditId(Uuid::from_u128(2)),
        "2026-01-02T03:04:05.678Z",
        tenant(7),
        &origin(9),
        &act,
    );
    let chain = [shown[0].clone(), forged.to_json(), shown[2].clone()];
    assert_eq!(broken(&chain), Some((2, Fault::OtherBefore)));
}

#[test]
fn a_chain_whose_owner_changes_is_none() {
    let first = chain(tenant(7), 1).remove(0);
    let head = Head { seq: 1, hash: first["hash"].as_str().map(str::to_owned) };
    let act = Act::new(Action::KeyRevoke, "thing", json!({}));
    let id = AuditId(Uuid::from_u128(2));
    let next = Entry::after(&head, id, "2026-01-02T03:04:05.678Z", tenant(8), &origin(2), &act).to_json();
    assert_eq!(broken(&[first, next]), Some((1, Fault::OtherChain)));
}

#[test]
fn what_is_no_entry_is_found() {
    let whole = chain(tenant(7), 1).remove(0);
    for name in ["hash", "seq", "tenant_id", "prev_hash"] {
        let mut entry = whole.clone();
        entry.as_object_mut().expect("an object").remove(name);
        assert_eq!(broken(&[entry]), Some((0, Fault::NoEntry(name))));
    }
    assert_eq!(broken(&[json!([])]), Some((0, Fault::NoEntry("an object"))));
    let mut odd = whole;
    odd["prev_hash"] = json!(7);
    assert_eq!(broken(&[odd]), Some((0, Fault::OtherBefore)));
}

/// The pointers of all that is written in an entry, leaves and objects.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    if let Value::Object(map) = value {
        for (name, item) in map {
            out.push(format!("{at}/{name}"));
            places(item, &format!("{at}/{name}"), out);
        }
    }
}

#[test]
fn every_part_of_every_entry_counts() {
    let shown = chain(tenant(7), 3);
    for place in 0..shown.len() {
        let mut pointers = Vec::new();
        places(&shown[place], "", &mut pointers);
        assert!(pointers.len() > 15, "{pointers:?}");
        for pointer in pointers {
            for other in [json!(null), json!("another"), json!(4), json!({"more": 1})] {
                let mut changed = shown.clone();
                let part = changed[place].pointer_mut(&pointer).expect("it is there");
                if *part == other {
                    continue;
                }
                *part = other;
                assert!(broken(&changed).is_some(), "{pointer} of entry {place}");
            }
        }
        let mut more = shown.clone();
        more[place]["more"] = json!(1);
        assert_eq!(broken(&more), Some((place, Fault::Changed)), "what is added counts as well");
    }
}

proptest! {
    #[test]
    fn a_flipped_byte_is_found(line in 0..4_usize, at in any::<prop::sample::Index>(), with in 1..=127_u8) {
        let mut lines: Vec<Vec<u8>> =
            chain(tenant(7), 4).iter().map(|entry| entry.to_string().into_bytes()).collect();
        let place = at.index(lines[line].len());
        lines[line][place] ^= with;
        let read: Vec<Value> = lines
            .iter()
            .map(|line| std::str::from_utf8(line).ok().and_then(|text| crate::json::parse(text).ok()))
            .map(Option::unwrap_or_default)
            .collect();
        // Another spelling of the very same values is no change.
        prop_assume!(read != chain(tenant(7), 4));
        prop_assert!(broken(&read).is_some());
    }
}

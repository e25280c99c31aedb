use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::bodies::OPERATIONS;
use super::{heads, requests};
use crate::document;

const SEEDS: &str = include_str!("../../../../tests/fuzz/seeds.json");

/// What the fuzz targets begin with: texts, by target.
fn seeds(target: &str) -> Vec<String> {
    let seeds: Value = serde_json::from_str(SEEDS).expect("JSON");
    let texts = seeds[target].as_array().expect("a list of lists of lines").iter().map(|lines| {
        let lines = lines.as_array().expect("lines").iter();
        lines
            .map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join("\n")
    });
    texts.collect()
}

#[test]
fn every_operation_with_a_json_body_is_fed() {
    let known: BTreeSet<String> =
        OPERATIONS.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let wanted: BTreeSet<String> = document::with_bodies().collect();
    assert_eq!(known, wanted);
    let seeds = seeds("requests");
    let named: BTreeSet<String> =
        seeds.iter().filter_map(|seed| seed.lines().next()).map(str::to_owned).collect();
    assert_eq!(named, wanted, "seeds");
}

#[test]
fn seeds_are_taken() {
    for seed in seeds("requests") {
        let (line, body) = seed.split_once('\n').expect("a line and a body");
        let (method, path, judge) =
            OPERATIONS.iter().find(|(method, path, _)| line == format!("{method} {path}")).expect(line);
        let operation = document::operation(method, path).expect("an operation");
        assert!(judge(operation, body.as_bytes()).is_ok(), "{seed}: {:?}", judge(operation, body.as_bytes()));
    }
}

/// What is put in somewhere.
const TOKENS: [&str; 20] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e999",
    "1.0",
    "12345678901234567890",
    "\"\\ud83d\"",
    "\\u0000",
    "\0",
    "🦊",
    "\u{feff}",
    "%00",
    "..",
    "%2e%2e%2f",
    "\"",
    "\r",
    "&limit=200",
];

fn changed(mut seed: Vec<u8>, changes: &[(prop::sample::Index, Option<usize>, u8)]) -> Vec<u8> {
    for (place, token, byte) in changes {
        if seed.is_empty() {
            break;
        }
        let at = place.index(seed.len());
        match token {
            Some(token) => drop(seed.splice(at..at, TOKENS[token % TOKENS.len()].bytes())),
            None if byte % 2 == 0 => seed[at] = *byte,
            None => drop(seed.drain(at..(at + usize::from(byte % 9)).min(seed.len()))),
        }
    }
    seed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn changed_seeds_are_read_or_refused(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec(any::<(prop::sample::Index, Option<usize>, u8)>(), 0..6),
    ) {
        let (bodies, of_heads) = (seeds("requests"), seeds("heads"));
        requests(&changed(seed.get(&bodies).clone().into_bytes(), &changes));
        heads(&changed(seed.get(&of_heads).clone().into_bytes(), &changes));
    }
}

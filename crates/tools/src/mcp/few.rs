//! Lists of which only so much is read: a short text may be a list of very many things, each of which costs.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The first `MOST` items of a list, as they are written, and how many more there are.
#[derive(Debug, Default)]
pub(super) struct Few<'m, const MOST: usize> {
    pub(super) items: Vec<&'m RawValue>,
    pub(super) more: usize,
}

impl<'de: 'm, 'm, const MOST: usize> Deserialize<'de> for Few<'m, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader::<MOST>)
    }
}

struct Reader<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for Reader<MOST> {
    type Value = Few<'de, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut few = Few::default();
        while few.items.len() < MOST {
            match list.next_element()? {
                Some(item) => few.items.push(item),
                None => return Ok(few),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            few.more += 1;
        }
        Ok(few)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_counted_and_not_kept() {
        for (text, wanted) in [
            ("[]", Some((vec![], 0))),
            ("[1, {}]", Some((vec!["1", "{}"], 0))),
            (r#"["a",[2],3,4, {"a": []}]"#, Some((vec!["\"a\"", "[2]"], 3))),
            ("{}", None),
            ("[1, 2, 3, x]", None),
            ("[1, 2", None),
            ("7", None),
        ] {
            let few = serde_json::from_str::<Few<'_, 2>>(text).ok();
            let seen = few.map(|few| (few.items.iter().map(|item| item.get()).collect(), few.more));
            assert_eq!(seen, wanted, "{text}");
        }
    }
}

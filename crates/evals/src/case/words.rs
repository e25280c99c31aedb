//! One text or several.

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess};
use serde::{Deserialize, Deserializer, Serialize};

use super::forms::{self, Forms};

/// Texts; in a file one may stand without a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Words(pub Vec<String>);

impl Words {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Forms<'de> for Words {
    const NEEDED: &'static str = "a text or a list of texts";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self(vec![text.to_owned()]))
    }

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

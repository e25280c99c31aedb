//! Values that may be written in several forms.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};

/// A value that may be written as a text, a number, a list or a mapping. What isn't overridden is refused.
pub(super) trait Forms<'de>: Sized {
    /// What is needed, for whoever wrote something else.
    const NEEDED: &'static str;

    fn of_text<E: Error>(_text: &str) -> Result<Self, E> {
        Err(needed::<Self, E>())
    }

    fn of_count<E: Error>(_count: u64) -> Result<Self, E> {
        Err(needed::<Self, E>())
    }

    fn of_list<A: SeqAccess<'de>>(_list: A) -> Result<Self, A::Error> {
        Err(needed::<Self, _>())
    }

    fn of_map<A: MapAccess<'de>>(_map: A) -> Result<Self, A::Error> {
        Err(needed::<Self, _>())
    }

    fn of_nothing<E: Error>() -> Result<Self, E> {
        Err(needed::<Self, E>())
    }
}

/// Says what is needed.
pub(super) fn needed<'de, T: Forms<'de>, E: Error>() -> E {
    E::custom(format_args!("{} is needed", T::NEEDED))
}

/// Reads a value in whatever form it has.
pub(super) fn read<'de, D: Deserializer<'de>, T: Forms<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(AnyForm(PhantomData))
}

struct AnyForm<T>(PhantomData<T>);

impl<'de, T: Forms<'de>> Visitor<'de> for AnyForm<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NEEDED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text)
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<T, E> {
        T::of_count(count)
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<T, E> {
        u64::try_from(count).map_err(|_| needed::<T, E>()).and_then(T::of_count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::of_map(map)
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        T::of_nothing()
    }
}

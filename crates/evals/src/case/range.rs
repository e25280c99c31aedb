//! Counts.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::forms::{self, Forms};

/// A count that must be just so, or lie between bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    min: u64,
    max: Option<u64>,
}

impl Range {
    /// Just so.
    #[must_use]
    pub fn exactly(count: u64) -> Self {
        Self { min: count, max: Some(count) }
    }

    /// So much or more.
    #[must_use]
    pub fn at_least(min: u64) -> Self {
        Self { min, max: None }
    }

    /// Whether a count is as it must be.
    #[must_use]
    pub fn has(&self, count: u64) -> bool {
        count >= self.min && self.max.is_none_or(|max| count <= max)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, Some(max)) if min == max => write!(f, "{min}"),
            (min, None) => write!(f, "at least {min}"),
            (0, Some(max)) => write!(f, "at most {max}"),
            (min, Some(max)) => write!(f, "{min} to {max}"),
        }
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.min, self.max) {
            (min, Some(max)) if min == max => serializer.serialize_u64(min),
            (min, None) => json!({"min": min}).serialize(serializer),
            (0, Some(max)) => json!({"max": max}).serialize(serializer),
            (min, Some(max)) => json!({"min": min, "max": max}).serialize(serializer),
        }
    }
}

impl<'de> Forms<'de> for Range {
    const NEEDED: &'static str = "a number, or {min: …, max: …}";

    fn of_count<E: Error>(count: u64) -> Result<Self, E> {
        Ok(Self::exactly(count))
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            min: Option<u64>,
            max: Option<u64>,
        }
        let Written { min, max } = Written::deserialize(MapAccessDeserializer::new(map))?;
        match (min, max) {
            (None, None) => Err(forms::needed::<Self, _>()),
            (Some(min), Some(max)) if max < min => {
                Err(A::Error::custom(format!("nothing lies between {min} and {max}")))
            }
            (min, max) => Ok(Self { min: min.unwrap_or(0), max }),
        }
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

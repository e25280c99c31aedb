//! A JSON document read strictly: an object where a struct is meant, a string where a choice is meant.
//!
//! serde also takes a list for a struct (its fields in order) and `{"deny": null}` for a choice. Neither is what the
//! document's author can have meant. A whole number may be written as `3.0`, as JSON Schema has it.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// Whole numbers that a fraction can be written for without loss.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A document, or a part of one.
pub(crate) struct Strict(pub(crate) Value);

impl<'de> IntoDeserializer<'de, Error> for Strict {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl Strict {
    /// What is read where a whole number is meant.
    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.0.as_number().filter(|number| !number.is_i64() && !number.is_u64());
        let written = number.and_then(serde_json::Number::as_f64);
        match written.filter(|number| number.fract() == 0.0 && number.abs() <= EXACT) {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and within i64")]
            Some(number) => visitor.visit_i64(number as i64),
            None => self.deserialize_any(visitor),
        }
    }
}

macro_rules! whole {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.whole(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Strict {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(Strict));
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            Value::Object(map) => {
                let mut members =
                    MapDeserializer::new(map.into_iter().map(|(name, value)| (name, Strict(value))));
                let value = visitor.visit_map(&mut members)?;
                members.end().map(|()| value)
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.is_array() {
            return Err(Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.as_object().is_some_and(|map| map.values().any(Value::is_null)) {
            return Err(Error::invalid_type(Unexpected::Map, &"a string"));
        }
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    whole! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::*;

    #[test]
    fn whole_numbers_in_any_writing() {
        let read = |text: &str| u32::deserialize(Strict(crate::json::parse(text).expect("JSON"))).ok();
        for (text, wanted) in [
            ("793", Some(793)),
            ("793.0", Some(793)),
            ("7.93e2", Some(793)),
            ("-0.0", Some(0)),
            ("793.5", None),
            ("-1.0", None),
            ("4294967296.0", None),
            ("1e400", None),
            ("\"793\"", None),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
        let wide = |text: &str| i64::deserialize(Strict(crate::json::parse(text).expect("JSON"))).ok();
        assert_eq!(wide("9223372036854775807"), Some(i64::MAX));
        assert_eq!(wide("9223372036854775807.0"), None);
        let kept = Value::deserialize(Strict(crate::json::parse("1.50").expect("JSON"))).expect("a value");
        assert_eq!(kept.to_string(), "1.50");
    }
}

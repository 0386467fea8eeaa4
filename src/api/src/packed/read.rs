//! Converts JSON to encoded messages.

use super::wire::{self, put_delimited, put_number};
use crate::field_table::{Field, Kind, Label};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// Reads a message, and appends it to `out`.
pub(super) struct Reader<'o> {
    pub(super) fields: &'static [Field],
    pub(super) out: &'o mut Vec<u8>,
}

/// Reads the value of a field, or one value of a list or map.
struct Single<'o> {
    kind: Kind,
    number: u32,
    /// Whether a default value has to be written: yes in lists and maps, whereas a message omits
    /// fields that have their defaults.
    with_default: bool,
    out: &'o mut Vec<u8>,
}

/// Reads the values of a repeated field.
struct Values<'o> {
    kind: Kind,
    number: u32,
    out: &'o mut Vec<u8>,
}

/// Reads the entries of a map.
struct Entries<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'_>>()? {
            let has_name = |field: &&Field| field.name == name.0 || field.original == name.0;
            let Some(field) = self.fields.iter().find(has_name) else {
                return Err(A::Error::custom(format!("unknown field {:?}", name.0)));
            };
            let (kind, number, out) = (field.kind, field.number, &mut *self.out);
            match field.label {
                Label::One => {
                    map.next_value_seed(Single { kind, number, with_default: false, out })?;
                }
                Label::Repeated => map.next_value_seed(Values { kind, number, out })?,
                Label::MapOfString | Label::MapOfInt32 => {
                    map.next_value_seed(Entries { field, out })?;
                }
            }
        }
        Ok(())
    }
}

/// A key or value that is text, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { kind, number, out } = self;
        while list
            .next_element_seed(Single { kind, number, with_default: true, out: &mut *out })?
            .is_some()
        {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let kind = self.field.kind;
        while let Some(key) = map.next_key::<Name<'_>>()? {
            put_delimited(self.out, self.field.number, |out| {
                if self.field.label == Label::MapOfString {
                    put_text(out, wire::KEY, &key.0);
                } else {
                    let number: i32 = key.0.parse().map_err(A::Error::custom)?;
                    put_number(out, wire::KEY, i64::from(number) as u64);
                }
                let number = wire::VALUE;
                map.next_value_seed(Single { kind, number, with_default: true, out })
            })?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Single<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { kind, number, with_default, out } = self;
        let value = match kind {
            Kind::Message(fields) => {
                return put_delimited(out, number, |out| {
                    Reader { fields, out }.deserialize(deserializer)
                });
            }
            Kind::String => {
                let text = Name::deserialize(deserializer)?.0;
                if with_default || !text.is_empty() {
                    put_text(out, number, &text);
                }
                return Ok(());
            }
            Kind::Bool => u64::from(bool::deserialize(deserializer)?),
            Kind::Enum(names) => {
                let value = Value::deserialize(deserializer)?;
                let known = names.iter().find(|(_, name)| value.as_str() == Some(name));
                match known {
                    Some((number, _)) => i64::from(*number) as u64,
                    None => i64::from(parsed::<i32, _>(&value)?) as u64,
                }
            }
            Kind::Int32 => i64::from(parsed::<i32, _>(&Value::deserialize(deserializer)?)?) as u64,
            Kind::Int64 => parsed::<i64, _>(&Value::deserialize(deserializer)?)? as u64,
            Kind::Uint32 => parsed::<u32, _>(&Value::deserialize(deserializer)?)?.into(),
            Kind::Uint64 => parsed::<u64, _>(&Value::deserialize(deserializer)?)?,
        };
        if with_default || value != 0 {
            put_number(out, number, value);
        }
        Ok(())
    }
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    let Ok(()) = put_delimited(out, number, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, std::convert::Infallible>(())
    });
}

/// Parses a number, which may be a string in JSON.
fn parsed<T: std::str::FromStr<Err = std::num::ParseIntError>, E: Error>(
    value: &Value,
) -> Result<T, E> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(E::custom("not a number")),
    };
    text.parse().map_err(|e| E::custom(format!("{text:?}: {e}")))
}

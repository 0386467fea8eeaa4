//! Converts encoded messages to JSON.

use super::wire::{self, Value};
use crate::field_table::{Field, Kind, Label};
use serde::{
    Serialize, Serializer,
    ser::{Error, SerializeMap, SerializeSeq},
};

/// An encoded message. The values of a repeated field must follow each other without other fields
/// in between, since each run of values becomes a JSON entry.
pub(super) struct View<'a> {
    pub(super) fields: &'static [Field],
    pub(super) bytes: &'a [u8],
}

/// The values of a repeated field: the part of the message from the first to the last.
struct Values<'a> {
    kind: Kind,
    part: &'a [u8],
}

/// The entries of a map.
struct Entries<'a> {
    kind: Kind,
    has_text_keys: bool,
    part: &'a [u8],
}

/// The value of a field, or one value of a list or map.
struct Single<'a> {
    kind: Kind,
    value: Value<'a>,
}

fn malformed<E: Error>() -> E {
    E::custom("malformed message")
}

/// Returns the field with this number. The fields of a table are in the order of their numbers.
fn find(fields: &'static [Field], number: u32) -> Option<&'static Field> {
    fields.binary_search_by_key(&number, |field| field.number).ok().map(|index| &fields[index])
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut rest = self.bytes;
        while !rest.is_empty() {
            let from_here = rest;
            let (number, value) = wire::take(&mut rest).ok_or_else(malformed)?;
            let Some(field) = find(self.fields, number) else { continue };
            if field.label == Label::One {
                map.serialize_entry(field.name, &Single { kind: field.kind, value })?;
                continue;
            }
            let mut next = rest;
            while let Some((number, _)) = wire::take(&mut next)
                && number == field.number
            {
                rest = next;
            }
            let (kind, part) = (field.kind, &from_here[..from_here.len() - rest.len()]);
            match field.label {
                Label::One | Label::Repeated => {
                    map.serialize_entry(field.name, &Values { kind, part })?;
                }
                Label::MapOfString | Label::MapOfInt32 => {
                    let has_text_keys = field.label == Label::MapOfString;
                    map.serialize_entry(field.name, &Entries { kind, has_text_keys, part })?;
                }
            }
        }
        map.end()
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut rest = self.part;
        while let Some((_, value)) = wire::take(&mut rest) {
            match (self.kind, value) {
                (Kind::String | Kind::Message(_), _) | (_, Value::Number(_) | Value::Other) => {
                    list.serialize_element(&Single { kind: self.kind, value })?;
                }
                // Repeated numbers are packed into one value.
                (kind, Value::Bytes(mut numbers)) => {
                    while !numbers.is_empty() {
                        let number = wire::number(&mut numbers).ok_or_else(malformed)?;
                        list.serialize_element(&Single { kind, value: Value::Number(number) })?;
                    }
                }
            }
        }
        list.end()
    }
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut rest = self.part;
        while let Some((_, entry)) = wire::take(&mut rest) {
            let entry = entry.bytes().ok_or_else(malformed)?;
            let get = |number| wire::Values::of(entry, number).last();
            let value = Single { kind: self.kind, value: get(wire::VALUE).unwrap_or(self.empty()) };
            match (get(wire::KEY), self.has_text_keys) {
                (Some(Value::Bytes(key)), true) => map.serialize_entry(text(key)?, &value)?,
                (None, true) => map.serialize_entry("", &value)?,
                (Some(Value::Number(key)), false) => map.serialize_entry(&(key as i32), &value)?,
                (None, false) => map.serialize_entry(&0, &value)?,
                _ => return Err(malformed()),
            }
        }
        map.end()
    }
}

impl Entries<'_> {
    /// Returns the default, which is the value of an entry that has none.
    fn empty(&self) -> Value<'static> {
        match self.kind {
            Kind::String | Kind::Message(_) => Value::Bytes(&[]),
            _ => Value::Number(0),
        }
    }
}

impl Serialize for Single<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.kind, self.value) {
            (Kind::String, Value::Bytes(bytes)) => serializer.serialize_str(text(bytes)?),
            (Kind::Message(fields), Value::Bytes(bytes)) => {
                View { fields, bytes }.serialize(serializer)
            }
            (Kind::Bool, Value::Number(n)) => serializer.serialize_bool(n != 0),
            (Kind::Int32, Value::Number(n)) => serializer.serialize_i32(n as i32),
            (Kind::Uint32, Value::Number(n)) => serializer.serialize_u32(n as u32),
            (Kind::Int64, Value::Number(n)) => serializer.collect_str(&(n as i64)),
            (Kind::Uint64, Value::Number(n)) => serializer.collect_str(&n),
            (Kind::Enum(names), Value::Number(n)) => {
                match names.iter().find(|(number, _)| *number == n as i32) {
                    Some((_, name)) => serializer.serialize_str(name),
                    None => serializer.serialize_i32(n as i32),
                }
            }
            _ => Err(malformed()),
        }
    }
}

fn text<E: Error>(bytes: &[u8]) -> Result<&str, E> {
    std::str::from_utf8(bytes).map_err(E::custom)
}

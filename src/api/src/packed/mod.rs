//! [`Packed`]: a message in its protobuf encoding. It takes a tenth of the memory of the decoded
//! message, and is converted to and from JSON without reflection, whose code is large.
//!
//! The JSON is that of the protobuf specification: names in lower camel case, 64-bit numbers as
//! text, enums by name, and no field that has its default.

mod read;
mod wire;
mod write;

use crate::field_table::{Field, Kind, Label};
use protobuf::Message;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeSeed};
use std::{fmt, marker::PhantomData, sync::Arc};

/// A message that can be packed, because the generated code has a table of its fields.
pub trait Packable: Message {
    #[doc(hidden)]
    fn fields() -> Fields;

    /// Whether the message has a field with this number.
    fn has_field(number: u32) -> bool {
        Self::fields().0.iter().any(|field| field.number == number)
    }
}

/// The fields of a message.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Fields(pub(crate) &'static [Field]);

/// An encoded message, shared by its clones.
pub struct Packed<M> {
    bytes: Arc<[u8]>,
    message: PhantomData<fn() -> M>,
}

impl<M: Packable> Packed<M> {
    /// Packs a message. Fields that are in no table, such as those of a later protocol, are lost in
    /// JSON.
    pub fn new(message: &M) -> Self {
        // Encoding to memory fails only without a required field, and messages of NRI have none.
        Self::of_bytes(&message.write_to_bytes().unwrap_or_default())
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), message: PhantomData }
    }

    /// Returns the message.
    pub fn get(&self) -> M {
        // Cannot fail: `new` or the reader of JSON has encoded the message.
        M::parse_from_bytes(&self.bytes).unwrap_or_default()
    }

    /// Changes the message.
    pub fn change(&mut self, change: impl FnOnce(&mut M)) {
        let mut message = self.get();
        change(&mut message);
        *self = Self::new(&message);
    }

    /// Returns a text field without decoding the rest; empty if the field is missing. `path` has
    /// the names of the enclosing fields and of the field in the protocol.
    pub fn text(&self, path: &[&str]) -> &str {
        self.last(path).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Whether a field of texts or messages has a value, by a path as that of [`Packed::text`].
    pub fn has(&self, path: &[&str]) -> bool {
        self.last(path).is_some()
    }

    /// Returns the last value of a field of texts or messages.
    fn last(&self, path: &[&str]) -> Option<&[u8]> {
        let (mut fields, mut bytes) = (M::fields().0, &*self.bytes);
        for name in path {
            let field = fields.iter().find(|field| field.original == *name)?;
            bytes = wire::last(bytes, field.number)?;
            fields = match field.kind {
                Kind::Message(inner) => inner,
                _ => &[],
            };
        }
        Some(bytes)
    }

    /// Returns the paths of the fields that are set, such as `linux.resources.cpu`: the names in
    /// the protocol, in the order of their numbers. A message is one field unless its path is in
    /// `groups`; the paths of its fields are then returned instead.
    pub fn set_fields(&self, groups: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        set_fields(M::fields().0, &self.bytes, "", groups, &mut found);
        found
    }

    /// Returns the paths of unknown fields, each once and at most `limit`, such as `linux.99`: the
    /// last part is the number of the field. A known field with another type of value is unknown.
    pub fn unknown_fields(&self, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        unknown_fields(M::fields().0, &self.bytes, "", limit, &mut found);
        found
    }

    /// Returns a number, by the name of the field in the protocol; zero if the field is missing.
    pub fn number(&self, name: &str) -> i64 {
        let field = M::fields().0.iter().find(|field| field.original == name);
        let values = field.map(|field| wire::Values::of(&self.bytes, field.number));
        match values.and_then(Iterator::last) {
            Some(wire::Value::Number(number)) => number as i64,
            _ => 0,
        }
    }

    /// Returns the value of `key` in a map of texts. `map` is the field's name in the protocol.
    pub fn entry(&self, map: &str, key: &str) -> Option<&str> {
        let field = M::fields().0.iter().find(|field| field.original == map)?;
        wire::Values::of(&self.bytes, field.number)
            .filter_map(wire::Value::bytes)
            .find(|entry| wire::last(entry, wire::KEY).unwrap_or_default() == key.as_bytes())
            .and_then(|entry| {
                std::str::from_utf8(wire::last(entry, wire::VALUE).unwrap_or_default()).ok()
            })
    }
}

/// Adds the paths of the fields that are set in a message, each with `prefix` before it.
fn set_fields(
    fields: &'static [Field],
    message: &[u8],
    prefix: &str,
    groups: &[&str],
    found: &mut Vec<String>,
) {
    for field in fields {
        // A value of another type, which a plugin can add to the field, is not the field's value.
        let values = wire::Values::of(message, field.number);
        let Some(value) = values.filter(|value| field.accepts(value)).last() else { continue };
        let path = format!("{prefix}{}", field.original);
        match (field.kind, value) {
            (Kind::Message(inner), wire::Value::Bytes(bytes)) if groups.contains(&&*path) => {
                set_fields(inner, bytes, &format!("{path}."), groups, found);
            }
            _ => found.push(path),
        }
    }
}

/// Adds the paths of the unknown fields of a message, each with `prefix` before it.
fn unknown_fields(
    fields: &'static [Field],
    message: &[u8],
    prefix: &str,
    limit: usize,
    found: &mut Vec<String>,
) {
    let mut rest = message;
    while let Some((number, value)) = wire::take(&mut rest) {
        let is_known = fields.iter().any(|field| field.number == number && field.accepts(&value));
        let path = || format!("{prefix}{number}");
        if !is_known && found.len() < limit && !found.iter().any(|known| *known == path()) {
            found.push(path());
        }
    }
    for field in fields {
        let Kind::Message(inner) = field.kind else { continue };
        for bytes in wire::Values::of(message, field.number).filter_map(wire::Value::bytes) {
            let bytes = match field.label {
                Label::One | Label::Repeated => Some(bytes),
                Label::MapOfString | Label::MapOfInt32 => wire::last(bytes, wire::VALUE),
            };
            let prefix = format!("{prefix}{}.", field.original);
            unknown_fields(inner, bytes.unwrap_or_default(), &prefix, limit, found);
        }
    }
}

impl Field {
    /// Whether the field can have this value. Repeated numbers may be packed into one value.
    fn accepts(&self, value: &wire::Value<'_>) -> bool {
        match (self.label, self.kind, value) {
            (
                Label::Repeated | Label::MapOfString | Label::MapOfInt32,
                _,
                wire::Value::Bytes(_),
            ) => true,
            (_, Kind::String | Kind::Message(_), value) => matches!(value, wire::Value::Bytes(_)),
            (_, _, value) => matches!(value, wire::Value::Number(_)),
        }
    }
}

impl<M> Clone for Packed<M> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), message: PhantomData }
    }
}

impl<M: Packable> Default for Packed<M> {
    fn default() -> Self {
        Self::of_bytes(&[])
    }
}

impl<M> fmt::Debug for Packed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("bytes", &self.bytes.len()).finish()
    }
}

impl<M: Packable> From<&M> for Packed<M> {
    fn from(message: &M) -> Self {
        Self::new(message)
    }
}

impl<M: Packable> Serialize for Packed<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write::View { fields: M::fields().0, bytes: &self.bytes }.serialize(serializer)
    }
}

impl<'de, M: Packable> Deserialize<'de> for Packed<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut bytes = Vec::new();
        read::Reader { fields: M::fields().0, out: &mut bytes }.deserialize(deserializer)?;
        Ok(Self::of_bytes(&bytes))
    }
}

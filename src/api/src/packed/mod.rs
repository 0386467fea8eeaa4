//! [`Packed`]: a message in its protobuf encoding. It takes a tenth of the memory of the decoded
//! message, and is converted to and from JSON without reflection.
//!
//! The JSON is that of the protobuf specification: names in lower camel case, 64-bit numbers as
//! text, enums by name, and no field that has its default.

mod read;
mod wire;
mod write;

use crate::{
    field_table::{Field, Kind},
    generated::fields,
    proto::{Container, FieldOwners, PodSandbox},
};
use protobuf::Message;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeSeed};
use std::{fmt, marker::PhantomData, sync::Arc};

/// A message that can be packed.
pub trait Packable: Message {
    #[doc(hidden)]
    fn fields() -> Fields;
}

/// The fields of a message.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Fields(&'static [Field]);

impl Packable for Container {
    fn fields() -> Fields {
        Fields(fields::CONTAINER)
    }
}

impl Packable for PodSandbox {
    fn fields() -> Fields {
        Fields(fields::POD_SANDBOX)
    }
}

impl Packable for FieldOwners {
    fn fields() -> Fields {
        Fields(fields::FIELD_OWNERS)
    }
}

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

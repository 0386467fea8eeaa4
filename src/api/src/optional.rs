//! Conversion between the protocol's `Optional…` messages and `Option`.

use crate::proto::{
    OptionalBool, OptionalFileMode, OptionalInt, OptionalInt32, OptionalInt64,
    OptionalRepeatedString, OptionalString, OptionalUInt32, OptionalUInt64,
};
use protobuf::MessageField;

/// A message that holds one value; the value is set if the message is present.
pub trait Optional: Sized {
    /// Type of the value.
    type Value;
    /// Wraps a value.
    fn of(value: Self::Value) -> Self;
    /// Returns the value.
    fn value(&self) -> Self::Value;
}

/// Converts `Some(v)` to a present message, `None` to an absent one.
pub fn opt<T: Optional>(value: Option<T::Value>) -> MessageField<T> {
    value.map(T::of).into()
}

macro_rules! optional {
    ($($message:ident: $value:ty),* $(,)?) => {$(
        impl Optional for $message {
            type Value = $value;
            fn of(value: $value) -> Self {
                let mut m = Self::new();
                m.value = value;
                m
            }
            fn value(&self) -> $value {
                self.value.clone()
            }
        }
    )*};
}

optional! {
    OptionalString: String,
    OptionalRepeatedString: Vec<String>,
    OptionalInt: i64,
    OptionalInt32: i32,
    OptionalUInt32: u32,
    OptionalInt64: i64,
    OptionalUInt64: u64,
    OptionalBool: bool,
    OptionalFileMode: u32,
}

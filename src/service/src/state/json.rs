//! (De)serialization of protobuf messages inside JSON records, for `#[serde(with = "json")]`.

use nri_api::{Packable, Packed};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<M: Packable, S: Serializer>(
    message: &M,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Packed::new(message).serialize(serializer)
}

pub(super) fn deserialize<'de, M: Packable, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<M, D::Error> {
    Ok(Packed::deserialize(deserializer)?.get())
}

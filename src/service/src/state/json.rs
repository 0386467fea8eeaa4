//! (De)serialization of protobuf messages inside JSON records, for `#[serde(with = "json")]`.

use protobuf::MessageFull;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

pub(super) fn serialize<M: MessageFull, S: Serializer>(
    message: &M,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = protobuf_json_mapping::print_to_string(message).map_err(ser::Error::custom)?;
    RawValue::from_string(text).map_err(ser::Error::custom)?.serialize(serializer)
}

pub(super) fn deserialize<'de, M: MessageFull, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<M, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    protobuf_json_mapping::parse_from_str(text.get()).map_err(de::Error::custom)
}

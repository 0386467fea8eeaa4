//! Messages of the protocol as text, for plugins that print them. (Feature `dump`.)
//!
//! Both forms are protobuf's JSON mapping with the field names of the protocol, so that numbers of
//! 64 bits are strings; fields without a value are left out.

use protobuf::MessageDyn;
use protobuf_json_mapping::{PrintError, PrintOptions, print_to_string_with_options};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::{Number, Value};

/// Error of a message that has no form as text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The message has no JSON mapping.
    #[error("the message has no JSON mapping")]
    Message(#[from] PrintError),
    /// The JSON mapping was not JSON.
    #[error("the JSON mapping of the message is no JSON")]
    Json(#[from] serde_json::Error),
    /// The value cannot be written as YAML.
    #[error("the message cannot be written as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Returns a message as JSON.
///
/// # Errors
/// See [`DumpError`].
pub fn json(message: &dyn MessageDyn) -> Result<Value, DumpError> {
    let options = PrintOptions { proto_field_name: true, ..PrintOptions::default() };
    Ok(serde_json::from_str(&print_to_string_with_options(message, &options)?)?)
}

/// Returns messages as a JSON array.
///
/// # Errors
/// See [`DumpError`].
pub fn json_list<M: MessageDyn>(messages: &[M]) -> Result<Value, DumpError> {
    messages.iter().map(|message| json(message)).collect()
}

/// Returns a value as YAML.
///
/// ```
/// use nri_plugin::{dump, testing::pod};
///
/// let pod = dump::json(&pod("shop"))?;
/// assert_eq!(dump::yaml(&pod)?, "id: shop\nname: shop\nuid: uid-shop\nnamespace: default\n");
/// # Ok::<(), dump::DumpError>(())
/// ```
///
/// # Errors
/// See [`DumpError`].
pub fn yaml(value: &Value) -> Result<String, DumpError> {
    Ok(serde_saphyr::to_string(&Yaml(value))?)
}

/// A value for any serializer. Numbers of `serde_json` are only for its own, if the program has
/// `serde_json` with arbitrary precision.
struct Yaml<'a>(&'a Value);

impl Serialize for Yaml<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => serialize_number(number, serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(values) => serializer.collect_seq(values.iter().map(Yaml)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Yaml(value))))
            }
        }
    }
}

fn serialize_number<S: Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(number), ..) => serializer.serialize_i64(number),
        (_, Some(number), _) => serializer.serialize_u64(number),
        (.., Some(number)) => serializer.serialize_f64(number),
        _ => Err(S::Error::custom(format_args!("{number} is too large"))),
    }
}

//! Texts in YAML: `nodes: 0` is the text "0", as upstream's plugin reads it.

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::fmt;

/// A text that may be written as a number or a boolean, or be null, which is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_unit<E: Error>(self) -> Result<Text, E> {
        Ok(Text::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::from_go_yaml;

    #[test]
    fn scalars_are_texts() {
        let check = |yaml: &str, expected: &str| {
            assert_eq!(from_go_yaml::<Text>(yaml).unwrap(), Text(expected.to_owned()), "{yaml}");
        };
        check("a", "a");
        check("\"7\"", "7");
        check("7", "7");
        check("-1", "-1");
        check("1.5", "1.5");
        check("true", "true");
        check("~", "");
        for yaml in ["[]", "{}"] {
            from_go_yaml::<Text>(yaml).unwrap_err();
        }
    }
}

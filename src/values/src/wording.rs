//! Messages about values of a wrong type, for people who do not know Rust.
//!
//! Parsers that use serde describe values and types in words of serde and Rust, such as "invalid
//! type: map, expected i64". [`reworded`] translates the messages of serde; it knows the forms of
//! `serde::de::Error`, which are the same for all formats.

use crate::nearest;

/// What a format calls its compound values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// TOML: a table, a list.
    Toml,
    /// YAML and JSON: a mapping, a list.
    Yaml,
}

impl Words {
    const fn mapping(self) -> &'static str {
        match self {
            Self::Toml => "a table",
            Self::Yaml => "a mapping, such as `name: value`",
        }
    }

    const fn list(self) -> &'static str {
        match self {
            Self::Toml => "a list",
            Self::Yaml => "a list, such as `- value`",
        }
    }
}

/// Translates a message of serde. Other messages are returned unchanged. A translated message about
/// a value begins with "must be", so that a caller can put the key before it.
pub fn reworded(message: &str, words: Words) -> String {
    // The place, as serde_json writes it.
    if let Some((message, place)) = message.rsplit_once(" at line ")
        && place.split_once(" column ").is_some()
    {
        return format!("{} at line {place}", reworded(message, words));
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|begin| message.strip_prefix(begin)?.rsplit_once(", expected "));
    if let Some((found, expected)) = wrong {
        return format!("must be {}, not {}", wanted(expected, words), shown(found, words));
    }
    if let Some((name, names)) = unknown_name(message, "unknown variant ") {
        let listed: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        let listed = match &listed[..] {
            [only] => only.clone(),
            [first, second] => format!("{first} or {second}"),
            all => format!("one of {}", all.join(", ")),
        };
        let meant = nearest(name, names.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        return format!("must be {listed}, not {name:?}{meant}");
    }
    if let Some((name, names)) = unknown_name(message, "unknown field ") {
        return match nearest(name, names.iter().copied()) {
            Some(meant) => format!("unknown key `{name}`, did you mean `{meant}`?"),
            None if names.is_empty() => format!("unknown key `{name}`: none is known here"),
            None => format!("unknown key `{name}`, known keys: {}", names.join(", ")),
        };
    }
    // Of the crates toml and serde-saphyr.
    match message {
        "wanted string or table" => return "must be a text".to_owned(),
        "expected mapping start" => return format!("must be {}", words.mapping()),
        "expected sequence start" => return format!("must be {}", words.list()),
        _ => {}
    }
    let quoted = |begin: &str| message.strip_prefix(begin)?.strip_suffix('`');
    if let Some(name) = quoted("missing field `") {
        return format!("the key `{name}` is missing");
    }
    if let Some(name) = quoted("duplicate field `") {
        return format!("the key `{name}` is there twice");
    }
    message.to_owned()
}

/// Returns the key that serde does not know, and the keys that it knows, if `message` is about one.
#[cfg(feature = "toml")]
pub(crate) fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    unknown_name(message, "unknown field ")
}

/// Returns the name that serde does not know, and the names that it knows, from a message that
/// begins with `begin`.
fn unknown_name<'a>(message: &'a str, begin: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, rest) = message.strip_prefix(begin)?.strip_prefix('`')?.split_once('`')?;
    // serde-saphyr writes the names without quotes.
    let names = match rest.strip_prefix(", expected one of ").filter(|rest| !rest.contains('`')) {
        Some(rest) => rest.split(", ").collect(),
        None => rest.split('`').skip(1).step_by(2).collect(),
    };
    Some((name, names))
}

/// Returns what serde found, as people write it.
fn shown(found: &str, words: Words) -> String {
    for kind in ["integer `", "floating point `", "boolean `", "character `"] {
        if let Some(value) = found.strip_prefix(kind).and_then(|rest| rest.strip_suffix('`')) {
            return value.to_owned();
        }
    }
    let without_example = |text: &str| text.split(',').next().unwrap_or_default().to_owned();
    match found {
        "map" | "struct" => without_example(words.mapping()),
        "sequence" | "tuple" => without_example(words.list()),
        "number" => "a number".to_owned(),
        "null" | "unit value" | "Option value" => "empty".to_owned(),
        other => other.strip_prefix("string ").unwrap_or(other).to_owned(),
    }
}

/// Returns what serde expected, in words.
fn wanted(expected: &str, words: Words) -> String {
    let whole = |least: &dyn std::fmt::Display, most: &dyn std::fmt::Display| {
        format!("a whole number from {least} to {most}")
    };
    match expected {
        "u8" => whole(&0, &u8::MAX),
        "u16" => whole(&0, &u16::MAX),
        "u32" => whole(&0, &u32::MAX),
        "u64" | "usize" => whole(&0, &u64::MAX),
        "i8" => whole(&i8::MIN, &i8::MAX),
        "i16" => whole(&i16::MIN, &i16::MAX),
        "i32" => whole(&i32::MIN, &i32::MAX),
        "i64" | "isize" => whole(&i64::MIN, &i64::MAX),
        "f32" | "f64" => "a number".to_owned(),
        "bool" | "boolean" | "a boolean" => "true or false".to_owned(),
        "string" | "str" | "a string" | "path string" | "a borrowed string" | "string or map"
        | "variant identifier" => "a text".to_owned(),
        "sequence" | "a sequence" => words.list().to_owned(),
        "map" | "a map" => words.mapping().to_owned(),
        other if other.starts_with("struct ") => words.mapping().to_owned(),
        other if other.starts_with("enum ") => "a text".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_serde_are_translated() {
        for (message, expected) in [
            (
                "invalid type: map, expected u16",
                "must be a whole number from 0 to 65535, not a table",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "must be a whole number from 0 to 4294967295, not -1",
            ),
            (
                "invalid type: string \"a, expected b\", expected a boolean",
                "must be true or \
              false, not \"a, expected b\"",
            ),
            ("invalid type: floating point `1.5`, expected a string", "must be a text, not 1.5"),
            ("invalid type: sequence, expected struct Log", "must be a table, not a list"),
            ("invalid type: unit value, expected f64", "must be a number, not empty"),
            ("invalid length 3, expected a pair", "must be a pair, not 3"),
            (
                "unknown variant `both`, expected one of `auto`, `engine`, `ours`",
                "must be one of \"auto\", \"engine\", \"ours\", not \"both\"",
            ),
            (
                "unknown variant `aply`, expected `apply` or `shadow`",
                "must be \"apply\" or \"shadow\", not \"aply\"; did you mean \"apply\"?",
            ),
            ("unknown variant `x`, expected `y`", "must be \"y\", not \"x\""),
            (
                "unknown field `nam`, expected one of `name`, `match`",
                "unknown key `nam`, did you mean `name`?",
            ),
            (
                "unknown field `colour`, expected `name` or `match`",
                "unknown key `colour`, known keys: name, match",
            ),
            (
                "unknown field `nam`, expected one of name, match",
                "unknown key `nam`, did you mean `name`?",
            ),
            ("unknown field `a`, there are no fields", "unknown key `a`: none is known here"),
            ("missing field `match`", "the key `match` is missing"),
            ("duplicate field `match`", "the key `match` is there twice"),
            (
                "invalid type: integer `1`, expected struct Entry at line 1 column 16",
                "must be a table, not 1 at line 1 column 16",
            ),
            ("anything else", "anything else"),
        ] {
            assert_eq!(reworded(message, Words::Toml), expected);
        }
        let message = "invalid type: integer `5`, expected a sequence";
        assert_eq!(reworded(message, Words::Yaml), "must be a list, such as `- value`, not 5");
    }
}

//! Renders the reference as Markdown.

use super::{
    sections::sections,
    types::{DefaultValue, KeyDescription, KeyKind},
};

/// Limit of a line in characters, as for all documents of the repository.
const COLUMNS: usize = 100;

/// Returns the reference of all sections.
pub fn key_reference() -> String {
    let mut out = String::new();
    for section in sections() {
        let header = match section.header {
            "" => String::new(),
            header => format!(": `{header}`"),
        };
        out.push_str(&format!("## {}{header}\n\n{}\n", section.title, wrapped(section.text, "")));
        section.keys.iter().for_each(|key| out.push_str(&entry(key)));
    }
    out
}

fn entry(key: &KeyDescription) -> String {
    let mut out = format!("### `{}`\n\n{}\n", key.name, wrapped(&kind_and_default(key), ""));
    let text = match key.default {
        DefaultValue::Derived(default) => format!("{} Not set: {default}", key.text),
        _ => key.text.to_owned(),
    };
    out.push_str(&wrapped(&text, ""));
    out.push('\n');
    if let KeyKind::Choice(values) = key.kind {
        for (value, text) in values {
            out.push_str(&wrapped(&format!("* `\"{value}\"`: {}", effect(text)), "  "));
        }
        out.push('\n');
    }
    out
}

/// Returns kind and default of a value, and an example unless the kind already shows one.
fn kind_and_default(key: &KeyDescription) -> String {
    let kind = match key.kind {
        KeyKind::Boolean => "`true` or `false`",
        KeyKind::Integer => "Integer",
        KeyKind::Duration => "Duration",
        KeyKind::Size => "Size",
        KeyKind::Path => "Path",
        KeyKind::Text(kind) | KeyKind::List(kind) | KeyKind::Table(kind) => kind,
        KeyKind::Choice(_) => "One of the values below",
    };
    let default = match key.default {
        DefaultValue::Value(value) => format!(", default `{value}`"),
        DefaultValue::Derived(_) => String::new(),
        DefaultValue::Required => ", required".to_owned(),
    };
    match key.kind {
        KeyKind::Boolean | KeyKind::Choice(_) => format!("{kind}{default}."),
        _ => format!("{kind}{default}; for example `{}`.", key.example),
    }
}

/// Returns the effect of a value as the rest of a line: a sentence loses its capital and its full
/// stop.
pub(super) fn effect(text: &str) -> String {
    let text = text.trim();
    let Some(sentence) = text.strip_suffix('.') else { return text.to_owned() };
    let (first, rest) = sentence.split_at(sentence.chars().next().map_or(0, char::len_utf8));
    first.to_lowercase() + rest
}

/// Wraps `text` to lines of at most 100 characters; all but the first begin with `indent`.
pub fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let word = "x".repeat(30);
        let text = wrapped(&[&*word; 4].join("  "), "  ");
        assert_eq!(text, format!("{word} {word} {word}\n  {word}\n"));
        assert_eq!(wrapped("", ""), "\n");
    }
}

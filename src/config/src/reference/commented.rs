//! Renders the reference as a configuration file in which everything is commented out.

use super::{
    markdown::effect,
    sections::sections,
    types::{DefaultValue, KeyDescription, KeyKind},
};

/// Limit of a line in characters.
const COLUMNS: usize = 100;

/// Text before the first key.
const HEAD: &str = "Configuration of nri-container-runtime: every key, commented out at its \
                    default. A key without a fixed default has an example after \"For example:\". \
                    The programs read /etc/nri-container-runtime/config.toml; write the keys that \
                    you change there, with the headers of their tables.";

/// Returns a configuration file with every key and every table, all of them commented out.
pub fn commented_configuration() -> String {
    let mut out = String::from("# Generated from the code; a test compares them.\n#\n");
    out.push_str(&comment(HEAD, ""));
    for section in sections() {
        let title = format!("{}. {}", section.title, section.text);
        out.push_str(&format!("\n\n{}", comment(&title, "")));
        if !section.header.is_empty() {
            out.push_str(&format!("#{}\n", section.header));
        }
        section.keys.iter().for_each(|key| out.push_str(&entry(key)));
    }
    out
}

fn entry(key: &KeyDescription) -> String {
    let mut text = key.text.to_owned();
    let (value, is_example) = match key.default {
        DefaultValue::Value(value) => (value, false),
        DefaultValue::Derived(default) => {
            text.push_str(&format!(" Not set: {default}"));
            (key.example, true)
        }
        DefaultValue::Required => {
            text.push_str(" Required.");
            (key.example, true)
        }
    };
    let mut out = format!("\n{}", comment(&text, ""));
    match key.kind {
        KeyKind::Choice(values) => {
            for (value, text) in values {
                out.push_str(&comment(&format!("* \"{value}\": {}", effect(text)), "  "));
            }
        }
        KeyKind::Text(kind) | KeyKind::List(kind) | KeyKind::Table(kind) => {
            out.insert_str(1, &comment(&format!("{kind}."), ""));
        }
        KeyKind::Boolean | KeyKind::Integer | KeyKind::Duration | KeyKind::Size | KeyKind::Path => {
        }
    }
    if is_example {
        out.push_str("# For example:\n");
    }
    out.push_str(&format!("#{} = {value}\n", key.name));
    out
}

/// Returns Markdown as wrapped lines of a comment; all but the first begin with `indent`.
fn comment(markdown: &str, indent: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in plain(markdown).split_whitespace() {
        let length = word.chars().count();
        if column == 0 || column + 1 + length > COLUMNS {
            let (end, indent) = if column == 0 { ("", "") } else { ("\n", indent) };
            out.push_str(&format!("{end}# {indent}{word}"));
            column = 2 + indent.len() + length;
        } else {
            out.push_str(&format!(" {word}"));
            column += 1 + length;
        }
    }
    out.push('\n');
    out
}

/// Removes what only Markdown needs: backticks, and the targets of links.
fn plain(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (start, text) = before.rsplit_once('[').unwrap_or((before, ""));
        out.push_str(&format!("{start}{text}"));
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_have_no_markdown() {
        let text = "The `path`; see [How it\nis found](#how) and [goresctrl](https://x.y), [1000].";
        assert_eq!(plain(text), "The path; see How it\nis found and goresctrl, [1000].");
    }

    #[test]
    fn long_comments_are_wrapped_between_words() {
        let word = "x".repeat(31);
        let text = comment(&[&*word; 4].join("  "), "  ");
        assert_eq!(text, format!("# {word} {word} {word}\n#   {word}\n"));
    }
}

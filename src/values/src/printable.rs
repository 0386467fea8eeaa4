//! Makes untrusted text safe for logs and terminals: names, paths and messages of plugins may
//! contain any characters.

use std::borrow::Cow;

/// Returns the text as one line without terminal control: line feeds become `; `; other control
/// characters, separators of lines and paragraphs, and characters that change the direction of text
/// become `\u{fffd}`. Tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => line.push_str("; "),
            c if is_control(c) => line.push('\u{fffd}'),
            c => line.push(c),
        }
    }
    Cow::Owned(line)
}

fn is_control(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let changes_direction =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\t') || is_separator || changes_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        for (text, expected) in [
            ("plain é\ttext", "plain é\ttext"),
            ("a\nb\r\nc", "a; b\u{fffd}; c"),
            ("\x1b[2J\x07\x7f\0", "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{9b}31m \u{202e}txt \u{2028}", "\u{fffd}31m \u{fffd}txt \u{fffd}"),
        ] {
            assert_eq!(printable(text), expected);
        }
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }
}

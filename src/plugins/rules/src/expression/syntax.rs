//! Messages about the syntax of expressions: what is wrong in words of CEL, and what is meant by
//! words and signs of other languages.

use nri_values::{Letters, parse_size};

/// Words of other languages, and the operators of CEL.
const OPERATORS: [(&[&str], &str); 3] =
    [(&["and"], "&&"), (&["or"], "||"), (&["is", "eq", "equals"], "==")];

/// Returns the message of the parser as one line, without the list of all that would be possible,
/// and for what people often write in place of CEL, what is meant. Line and column of the
/// expression, from 1, are those of the mistake.
pub(super) fn message(message: &str, source: &str, line: usize, column: usize) -> String {
    let (before, rest) = at_position(source, line, column);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let word = rest.split(|c| !is_word(c)).next().unwrap_or_default();
    let previous = before.trim_end().rsplit(|c| !is_word(c)).next().unwrap_or_default();
    let operator = |word: &str| {
        let name = word.to_ascii_lowercase();
        OPERATORS.iter().find(|(words, _)| words.contains(&name.as_str())).map(|(_, meant)| *meant)
    };
    if let Some(meant) = operator(word) {
        return format!("write {meant} for {word}");
    }
    if previous.eq_ignore_ascii_case("not") {
        return format!("write ! for {previous}");
    }
    // A number with a unit is a number and a name for the parser.
    let number = &before[before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len()..];
    if !number.is_empty() && word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let amount = format!("{number}{word}");
        return match parse_size(&amount, Letters::Decimal) {
            Ok(bytes) => format!("an expression has no units: write {bytes} for {amount}"),
            Err(_) => format!("an expression has no units, as in {amount}: write a number"),
        };
    }
    let message = message.replace('\n', " ");
    let text = message.trim_start_matches("Syntax error: ");
    if let Some(token) = text.strip_prefix("token recognition error at: '") {
        return match token.chars().next() {
            Some('=') => "write == to compare".to_owned(),
            Some('&') => "write && for &".to_owned(),
            Some('|') => "write || for |".to_owned(),
            Some('"' | '\'') => "a text without the quote at its end".to_owned(),
            _ => format!("unexpected '{token}"),
        };
    }
    let text = text.split_once(" expecting ").map_or(text, |(text, _)| text);
    let token = text.strip_prefix("mismatched input ").or(text.strip_prefix("extraneous input "));
    match token {
        Some("'<EOF>'") => "the expression ends too early".to_owned(),
        Some(token) => format!("unexpected {token}"),
        None => text.to_owned(),
    }
}

/// Returns a line of an expression before this column, and from it on.
fn at_position(source: &str, line: usize, column: usize) -> (&str, &str) {
    let text = source.lines().nth(line - 1).unwrap_or_default();
    let at = text.char_indices().nth(column - 1).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

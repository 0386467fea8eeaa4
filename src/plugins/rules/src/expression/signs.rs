//! The signs of an expression: its characters outside of strings, comments and names. Strings begin
//! and end where the lexer of `cel` lets them, which a bracket or a quote in them does not change.

/// What strings and quoted names begin and end with; three quotes count before one.
const QUOTES: [&str; 5] = ["\"\"\"", "'''", "\"", "'", "`"];

/// Prefixes of strings in which a backslash escapes nothing, in lower case. `rb` is none: it is a
/// name before a string of its own.
const RAW: [&str; 2] = ["r", "br"];

/// Returns the signs of an expression with their positions.
pub(crate) fn signs(source: &str) -> impl Iterator<Item = (usize, char)> {
    let mut skipped = 0;
    source.char_indices().filter(move |(at, _)| {
        if *at < skipped {
            return false;
        }
        skipped = at + length_without_sign(&source[*at..]);
        skipped == *at
    })
}

/// Returns the length of the string, comment or name at the start of `source`; 0 if there is none.
fn length_without_sign(source: &str) -> usize {
    if source.starts_with("//") {
        return source.find('\n').unwrap_or(source.len());
    }
    let is_number = source.starts_with(|c: char| c.is_ascii_digit());
    let is_of_name = |c: char| !is_number && (c.is_ascii_alphanumeric() || c == '_');
    let name = source.find(|c| !is_of_name(c)).unwrap_or(source.len());
    let (name, rest) = source.split_at(name);
    let Some(quote) = QUOTES.into_iter().find(|quote| rest.starts_with(quote)) else {
        return name.len();
    };
    let is_raw = quote == "`" || RAW.iter().any(|prefix| name.eq_ignore_ascii_case(prefix));
    name.len() + quote.len() + length_to_end(&rest[quote.len()..], quote, is_raw)
}

/// Returns the length of a string from behind its first quote to behind its last one.
fn length_to_end(text: &str, quote: &str, is_raw: bool) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if !is_escaped && text[at..].starts_with(quote) {
            return at + quote.len();
        }
        is_escaped = !is_raw && c == '\\' && !is_escaped;
    }
    text.len()
}

//! What to write in place of a mistake, as a line that can be typed: YAML has meanings of its own
//! for many characters of expressions and messages.

use crate::file::options;

/// Tables of the file. Their values are in lines of their own, or in braces.
const TABLES: [&str; 20] = [
    "rules",
    "set",
    "default",
    "at_most",
    "at_least",
    "add",
    "remove",
    "strip",
    "hugepages",
    "unified",
    "env",
    "rlimits",
    "sysctl",
    "annotations",
    "mounts",
    "devices",
    "cdi",
    "hooks",
    "args",
    "options",
];

/// Returns a line of YAML with this text as its value, whatever characters the text has.
pub(crate) fn line(key: &str, text: &str) -> String {
    if text.contains('\'') && !text.contains(['"', '\\']) {
        format!("{key}: \"{text}\"")
    } else {
        format!("{key}: '{}'", text.replace('\'', "''"))
    }
}

/// Returns a text of several lines as one line.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Returns what to write in place of the text with its key in this line, from 1, if YAML does not
/// take it for a text. The text may continue in the following lines.
pub(crate) fn quoted(content: &str, line_number: usize) -> Option<String> {
    let lines: Vec<&str> = content.lines().collect();
    // The end of a file may be named as the line after its last one.
    let line_number = line_number.min(lines.len());
    let found = (0..line_number).rev().find_map(|at| Some((at, member(lines[at])?)));
    let (at, Member { indent, key, value }) = found?;
    let is_of_member = at + 1 == line_number
        || lines[at + 1..line_number].iter().all(|line| indent_of(line) > indent);
    if !is_of_member || (TABLES.contains(&key) && parent(&lines[..at], indent) != Some("strip")) {
        return None;
    }
    let more = lines[at + 1..].iter().take_while(|line| indent_of(line) > indent);
    // A table below, and no text that continues.
    if more.clone().any(|line| member(line).is_some()) {
        return None;
    }
    let parts = [value].into_iter().chain(more.copied()).map(without_comment);
    let text = one_line(&parts.collect::<Vec<_>>().join("\n"));
    let begins = |characters: &[char]| text.starts_with(characters);
    if text.is_empty() || begins(&['|', '>', '#']) {
        return None;
    }
    let is_text = serde_saphyr::from_str_with_options::<String>(&text, options()).is_ok();
    (!is_text || begins(&['!', '&', '*'])).then(|| line(key, &text))
}

/// Whether a line has a key with an expression or a text between others, in braces.
pub(crate) fn is_in_braces(content: &str, line_number: usize) -> bool {
    let line = content.lines().nth(line_number.saturating_sub(1)).unwrap_or_default();
    line.contains('{') && ["match:", "refuse:", "strip:"].iter().any(|key| line.contains(key))
}

/// A line with a key and a value.
struct Member<'a> {
    /// Characters before the key.
    indent: usize,
    key: &'a str,
    value: &'a str,
}

fn member(line: &str) -> Option<Member<'_>> {
    let own = line.trim_start().trim_start_matches("- ").trim_start();
    let (key, value) = own.split_once(':')?;
    let is_key =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
    let is_member = is_key && (value.is_empty() || value.starts_with(' '));
    is_member.then(|| Member { indent: line.len() - own.len(), key, value: value.trim() })
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the key of the table that a line with this indentation is in.
fn parent<'a>(before: &[&'a str], indent: usize) -> Option<&'a str> {
    let members = before.iter().rev().filter_map(|line| member(line));
    members.into_iter().find(|member| member.indent < indent).map(|member| member.key)
}

/// Returns a line without the comment that ends it: a `#` after a space, and in no quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match quote {
            Some(end) => quote = (c != end).then_some(end),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '#' && (at == 0 || line[..at].ends_with(' ')) => return &line[..at],
            None => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_yaml_takes_for_something_else_is_written_in_quotes() {
        for (text, expected) in [
            ("match: \"a\" in labels && x == 'b'", Some("match: '\"a\" in labels && x == ''b'''")),
            (
                "  - match: !image.startsWith(\"x/\") # no",
                Some("match: '!image.startsWith(\"x/\")'"),
            ),
            ("refuse: this image: not ours", Some("refuse: 'this image: not ours'")),
            ("match: \"a\" in labels\n  && b", Some("match: '\"a\" in labels && b'")),
            ("match: !x == 'b'", Some("match: \"!x == 'b'\"")),
            ("match: [1] == [2]", Some("match: '[1] == [2]'")),
            ("match: ! privileged", Some("match: '! privileged'")),
            ("strip:\n  env: !it.name", Some("env: '!it.name'")),
            ("set:\n  env: !it.name", None),
            ("set: memory.limit: 5", None),
            ("match: image == \"#a\"", None),
            ("match: 'a'", None),
            ("mem: &a\n  b: c\n  d: e", None),
            ("match: >-\n  \"a\" in labels", None),
            ("- { match: \"a\" in labels }", None),
            ("match:", None),
            ("", None),
        ] {
            let last = text.lines().count();
            for line in [last, last + 1] {
                assert_eq!(quoted(text, line).as_deref(), expected, "{text}");
            }
        }
    }
}

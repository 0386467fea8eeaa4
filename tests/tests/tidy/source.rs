//! Reads the repository's files, and removes comments and strings from Rust code.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::sync::LazyLock;

/// A text file.
pub(crate) struct Source {
    /// Path relative to the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Rust code with comments and contents of strings replaced by blanks; line numbers stay the
    /// same.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { blanked(text) } else { String::new() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Whether the file is below one of these folders.
    pub(crate) fn is_below(&self, folders: &[&str]) -> bool {
        folders
            .iter()
            .any(|folder| self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    pub(crate) fn is_generated(&self) -> bool {
        self.path.contains("/generated/")
    }
}

/// Root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Folders without sources: build outputs, and inputs found by the fuzzer.
const SKIPPED: &[&str] = &["target", "build", "corpus"];

/// Returns all files with one of these extensions, sorted.
pub(crate) fn sources(endings: &[&str]) -> Vec<Source> {
    fn walk(folder: &Path, path: &str, endings: &[&str], found: &mut Vec<Source>) {
        for entry in read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                walk(&entry.path(), &path, endings, found);
            } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                // Skip a file that another process has removed since the directory was read.
                found.extend(
                    read_to_string(entry.path()).ok().map(|text| Source::new(&path, &text)),
                );
            }
        }
    }
    let mut found = Vec::new();
    walk(root(), "", endings, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no files {endings:?}");
    found
}

/// Returns all Rust sources, which are read once.
pub(crate) fn rust() -> &'static [Source] {
    static ALL: LazyLock<Vec<Source>> = LazyLock::new(|| sources(&[".rs"]));
    &ALL
}

/// Replaces comments and contents of strings by blanks.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut code = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let is_in_word = i > 0 && (at(i - 1).is_alphanumeric() || at(i - 1) == '_');
        let end = match at(i) {
            '/' if at(i + 1) == '/' => {
                (i..chars.len()).find(|&j| at(j) == '\n').unwrap_or(chars.len())
            }
            '/' if at(i + 1) == '*' => end_of_comment(&chars, i),
            '"' => end_of_string(&chars, i),
            'r' if !is_in_word || (at(i - 1) == 'b' || at(i - 1) == 'c') => {
                end_of_raw(&chars, i).unwrap_or(i)
            }
            '\'' if at(i + 1) == '\\' => {
                (i + 3..chars.len()).find(|&j| at(j) == '\'').map_or(chars.len(), |j| j + 1)
            }
            '\'' if at(i + 2) == '\'' => i + 3,
            _ => i,
        };
        if end == i {
            code.push(at(i));
            i += 1;
        } else {
            code.extend((i..end).map(|j| if at(j) == '\n' { '\n' } else { ' ' }));
            i = end;
        }
    }
    code
}

/// Returns the end of a block comment; block comments nest.
fn end_of_comment(chars: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i < chars.len() {
        match chars[i..].get(..2) {
            Some(['/', '*']) => (depth, i) = (depth + 1, i + 2),
            Some(['*', '/']) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    i
}

/// Returns the end of a string with escapes.
fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// Returns the end of a raw string such as `r"…"` or `r#"…"#`; `None` for a raw identifier such as
/// `r#type`.
fn end_of_raw(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| {
        chars[*i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    Some((open + 1..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes))
}

#[test]
fn comments_and_strings_are_blanked() {
    let check = |text: &str, expected: &str| {
        let found = blanked(text);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        assert_eq!(found.lines().count(), text.lines().count(), "{text}");
    };
    check("a // b\nc", "a c");
    check("a /* b /* c */ d */ e", "a e");
    check(r#"f("x\" // y", z)"#, "f( , z)");
    check(r##"f(r#"a " b"#, br"c", r#type)"##, "f( , b , r#type)");
    check(r"g('\'', '/', '\u{2f}', &'a str, b'\\')", "g( , , , &'a str, b )");
    check("h('\"'); // x", "h( );");
    check("i(\"a\nb\")\nj", "i( ) j");
}

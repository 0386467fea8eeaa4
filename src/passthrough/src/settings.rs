//! The few values of the configuration that every call needs, read from common forms of TOML.
//!
//! Each line must be blank, a comment, a table header or a bare key with a text without escapes, an
//! integer, a boolean, or a list of these. Keys and values of no interest are not checked further:
//! as long as each line is valid, `nri-config` finds the same runtime and state directory whatever
//! else is wrong, since `nri-config` reads both even from an invalid file.

/// Values of the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallSettings<'a> {
    /// `state_dir`, an absolute path.
    pub(crate) state_dir: Option<&'a [u8]>,
    /// `[runtime].path`, an absolute path or a bare name.
    pub(crate) runtime: Option<&'a [u8]>,
    /// `path` of `[runtime.names.NAME]`, where NAME is the name that the wrapper is called as.
    pub(crate) named: Option<&'a [u8]>,
    /// Whether there are tables or keys that are not checked here: the configuration may be
    /// invalid, or disable NRI, on which a verb with an event depends.
    pub(crate) has_others: bool,
}

/// Table to which the keys of a line belong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Top,
    Runtime,
    /// `[runtime.names.NAME]`, and whether NAME is the name that the wrapper is called as.
    Named(bool),
    Other,
}

/// A value of a key.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a [u8]),
    Other,
}

/// Reads the values from the text of a file. Returns `None` if the text has other forms of TOML, or
/// other keys of the runtime.
pub(crate) fn read<'a>(text: &'a [u8], called_as: &[u8]) -> Option<CallSettings<'a>> {
    let is_control = |byte: &u8| (*byte < b' ' && !matches!(byte, b'\n' | b'\t')) || *byte == 0x7f;
    if core::str::from_utf8(text).is_err() || text.iter().any(is_control) {
        return None;
    }
    let mut settings = CallSettings::default();
    let (mut table, mut has_runtime, mut has_named) = (Table::Top, false, false);
    let mut directories = [false; 2];
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        if is_end(line) {
            continue;
        }
        if line.starts_with(b"[") {
            table = header(line, called_as)?;
            settings.has_others |= table != Table::Runtime;
            let seen = match table {
                Table::Runtime => &mut has_runtime,
                Table::Named(true) => &mut has_named,
                _ => continue,
            };
            if core::mem::replace(seen, true) {
                return None;
            }
            continue;
        }
        let (key, rest) = key(line)?;
        let rest = rest.trim_ascii_start().strip_prefix(b"=")?;
        let (value, rest) = value(rest.trim_ascii_start())?;
        if !is_end(rest) {
            return None;
        }
        let place = match (table, key) {
            (Table::Top, b"state_dir" | b"state-dir") => &mut settings.state_dir,
            (Table::Runtime, b"path") => &mut settings.runtime,
            (Table::Named(true), b"path") => &mut settings.named,
            // No call needs these two, but many configurations have them.
            (Table::Top, b"plugin_path" | b"plugin_config_path") => {
                let is_first =
                    !core::mem::replace(&mut directories[usize::from(key == b"plugin_path")], true);
                let is_valid = matches!(value, Value::Text(path) if path.starts_with(b"/"));
                settings.has_others |= !(is_first && is_valid);
                continue;
            }
            (Table::Named(false), b"path") | (Table::Other, _) => continue,
            (Table::Top, key) if !is_in_runtime(key) => {
                settings.has_others = true;
                continue;
            }
            _ => return None,
        };
        match value {
            Value::Text(path) if is_usable(path, table) && place.is_none() => *place = Some(path),
            _ => return None,
        }
    }
    Some(settings)
}

/// Whether a path can be used unchanged: it is absolute, or the bare name of a program.
fn is_usable(path: &[u8], table: Table) -> bool {
    let is_bare = !path.contains(&b'/') && !matches!(path, b"" | b"." | b"..");
    path.starts_with(b"/") || (table != Table::Top && is_bare)
}

/// Whether the rest of a line is empty or a comment.
fn is_end(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start().first(), None | Some(b'#'))
}

/// Whether a dotted key is `runtime`, or a key in that table.
fn is_in_runtime(key: &[u8]) -> bool {
    key.strip_prefix(b"runtime").is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Reads a line with the header of a table or of an element of a list of tables.
fn header(line: &[u8], called_as: &[u8]) -> Option<Table> {
    let is_list = line.starts_with(b"[[");
    let brackets = if is_list { (&b"[["[..], &b"]]"[..]) } else { (&b"["[..], &b"]"[..]) };
    let (key, rest) = key(line.strip_prefix(brackets.0)?)?;
    if !is_end(rest.strip_prefix(brackets.1)?) {
        return None;
    }
    if !is_in_runtime(key) {
        return Some(Table::Other);
    }
    if is_list {
        return None;
    }
    match key.strip_prefix(b"runtime.names.") {
        None => (key == b"runtime").then_some(Table::Runtime),
        Some(name) => (!name.contains(&b'.')).then_some(Table::Named(name == called_as)),
    }
}

/// Reads bare keys with dots between them. Returns the keys and the rest of the line.
fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let end = line.iter().position(|byte| !is_key(byte)).unwrap_or(line.len());
    let (key, rest) = line.split_at_checked(end)?;
    let is_bare = key.split(|byte| *byte == b'.').all(|part| !part.is_empty());
    is_bare.then_some((key, rest))
}

/// Reads a value. Returns the value and the rest of the line.
fn value(line: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let Some(mut rest) = line.strip_prefix(b"[") else { return scalar(line) };
    loop {
        rest = rest.trim_ascii_start();
        if let Some(rest) = rest.strip_prefix(b"]") {
            return Some((Value::Other, rest));
        }
        rest = scalar(rest)?.1.trim_ascii_start();
        match rest.strip_prefix(b",") {
            Some(next) => rest = next,
            None if rest.starts_with(b"]") => {}
            None => return None,
        }
    }
}

/// Reads a text, an integer or a boolean. Returns the value and the rest of the line.
fn scalar(line: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let quote = *line.first()?;
    if matches!(quote, b'"' | b'\'') {
        let (text, rest) = line
            .get(1..)?
            .split_at_checked(line.get(1..)?.iter().position(|byte| *byte == quote)?)?;
        if quote == b'"' && text.contains(&b'\\') {
            return None;
        }
        return Some((Value::Text(text), rest.get(1..)?));
    }
    for word in [&b"true"[..], b"false"] {
        if let Some(rest) = line.strip_prefix(word) {
            return Some((Value::Other, rest));
        }
    }
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let has_leading_zero = length > 1 && digits.starts_with(b"0");
    // A number of 19 digits may exceed 64 bits, which `nri-config` refuses.
    if length == 0 || length > 18 || has_leading_zero {
        return None;
    }
    Some((Value::Other, digits.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<[&str; 3]>) {
        let found = read(text.as_bytes(), b"nri-x");
        let found = found.map(|found| {
            [found.state_dir, found.runtime, found.named]
                .map(|value| value.map_or("", |value| core::str::from_utf8(value).unwrap()))
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn values_are_found_in_common_forms() {
        check("", Some(["", "", ""]));
        check("# x\n\n \t# y\n[runtime] # z\npath='/r' # ''", Some(["", "/r", ""]));
        check("[runtime]\npath = \"runc\"\n", Some(["", "runc", ""]));
        check("state-dir = '/s'\nmode = 'shadow'\n[log]\nlevel = 'info'", Some(["/s", "", ""]));
        check(
            "state_dir = \"/s\"\nenforce = \"off\"\ndisable = false\n\
             [[plugin]]\nmatch = '*'\nallow = ['env', \"mounts\" , ]\nmax = [ -1, 0, 20]\n\
             [runtime.names.nri-y]\npath = '/y'\n[runtime]\npath = '/r'\n\
             [runtime.names.nri-x]\npath = '/x'\n[connections]\npath = 7\nallow.a-b = []\n",
            Some(["/s", "/r", "/x"]),
        );
        // Keys of the same name in other tables have no effect.
        check("[log]\nstate_dir = '/s'\npath = '/p'\n[runtimes]\npath = '/p'", Some(["", "", ""]));
    }

    #[test]
    fn other_forms_of_toml_are_not_read() {
        for text in [
            "[runtime]\npath = '/r'\npath = '/q'",
            "[runtime]\npath = '/r'\n[runtime]\n",
            "[runtime.names.nri-x]\npath = '/r'\n[runtime.names.nri-x]\n",
            "[[runtime]]\npath = '/r'",
            "[runtime]\ncandidates = ['a']",
            "[runtime]\npath = 7",
            "[runtime]\npath = ''",
            "[runtime]\npath = './r'",
            "[runtime]\npath = '..'",
            "[runtime]\npath = \"/a\\u0062\"",
            "[runtime]\npath = '''/r'''",
            "[runtime]\npath = \"\"\"/r\"\"\"",
            "[runtime]\n'path' = '/r'",
            "[runtime.names]\nx.path = '/r'",
            "[runtime.names.x.y]\npath = '/r'",
            "[runtime.names.'x']\npath = '/r'",
            "[ runtime ]\npath = '/r'",
            "runtime.path = '/r'",
            "runtime = { path = '/r' }",
            "state_dir = 's'",
            "state_dir = 'runc'",
            "state_dir = '/s'\nstate-dir = '/s'",
            "a = 1.5",
            "a = 0x10",
            "a = 01",
            "a = 1979-05-27",
            "a = 1234567890123456789",
            "a = [\n1]",
            "a = [1 2]",
            "a = {}",
            "a = 'x' 'y'",
            "a = 'x",
            "a = truely",
            "a =",
            "a",
            "a. = 1",
            "= 1",
            "\"a\" = 1",
            "[a",
            "[[a]",
            "[a]]",
            "[a] b",
            "[]",
            "a = 1\r\n",
            "a = 'x\u{1}'",
            "# \u{7f}",
            "\u{feff}a = 1",
        ] {
            check(text, None);
        }
        assert_eq!(read(b"# \xff", b""), None);
    }
}

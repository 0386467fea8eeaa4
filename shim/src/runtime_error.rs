//! The error that the real runtime writes to the file of `--log`, in the forms of runc, crun and
//! youki: JSON values, or lines of text.

use serde_json::{Deserializer, Value};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// Maximum number of bytes of the file that are read, from its end: an error has a few hundred.
const LIMIT: u64 = 64 << 10;

/// Length in characters to which an error is cut: runc adds the output of hooks.
const MAX_ERROR: usize = 4096;

/// Returns the size of a regular file; zero if the file does not exist, `None` for other files.
pub(crate) fn size(path: &Path) -> Option<u64> {
    match std::fs::metadata(path) {
        Ok(metadata) => metadata.is_file().then_some(metadata.len()),
        Err(e) => (e.kind() == std::io::ErrorKind::NotFound).then_some(0),
    }
}

/// Returns the last error that was written to a file after its first `before` bytes.
pub(crate) fn last(path: &Path, before: u64, json: bool) -> Option<String> {
    let size = size(path)?;
    let start = before.max(size.saturating_sub(LIMIT));
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let error = if json { last_of_json(&text) } else { last_of_lines(&text) };
    error
        .map(|error| error.trim().chars().take(MAX_ERROR).collect())
        .filter(|e: &String| !e.is_empty())
}

/// crun prints a value over several lines; youki calls the message `message`.
fn last_of_json(text: &str) -> Option<String> {
    let values = Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok);
    let message = |value: Value| {
        let level = value.get("level")?.as_str()?;
        let message = value.get("msg").or_else(|| value.get("message"))?.as_str()?;
        level.eq_ignore_ascii_case("error").then(|| message.to_owned())
    };
    values.filter_map(message).last()
}

/// A line of runc is in logfmt; crun writes the time and the message.
fn last_of_lines(text: &str) -> Option<String> {
    let message = |line: &str| match line.split_once("level=") {
        Some((_, rest)) => {
            let quoted = rest.strip_prefix("error")?.trim_start().strip_prefix("msg=")?;
            let mut strings = Deserializer::from_str(quoted).into_iter::<String>();
            // Go has escapes that JSON does not have.
            Some(strings.next()?.unwrap_or_else(|_| quoted.trim_matches('"').to_owned()))
        }
        None => Some(line.split_once("Z: ").map_or(line, |(_, message)| message).to_owned()),
    };
    text.lines().filter(|line| !line.trim().is_empty()).filter_map(message).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_found_in_the_form_of_each_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let before = "{\"level\":\"error\",\"msg\":\"of another call\"}\n";
        for (json, text, expected) in [
            (
                true,
                "{\"level\":\"error\",\"msg\":\"first\",\"time\":\"t\"}\n\
                 {\"level\":\"error\",\"msg\":\"write \\\"99\\\"\",\"time\":\"t\"}\n\
                 {\"level\":\"warning\",\"msg\":\"w\"}\n",
                Some("write \"99\""),
            ),
            (true, "{\n  \"msg\": \"a\\n\",\n  \"level\": \"error\"\n}\n", Some("a")),
            (
                true,
                "{\"level\":\"ERROR\",\"message\":\"of youki\",\"target\":\"x\"}",
                Some("of youki"),
            ),
            (true, "{\"level\":\"info\",\"msg\":\"i\"}", None),
            (true, "no JSON", None),
            (
                false,
                "time=\"t\" level=error msg=\"write \\\"99\\\"\"\ntime=\"t\" level=info msg=x\n",
                Some("write \"99\""),
            ),
            (false, "time=\"t\" level=error msg=\"\\x01\"\n", Some("\\x01")),
            (false, "2026-08-01T10:00:00.1Z: cannot stat `/x`\n\n", Some("cannot stat `/x`")),
            (false, "", None),
        ] {
            std::fs::write(&path, format!("{before}{text}")).unwrap();
            let found = last(&path, before.len() as u64, json);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        std::fs::write(&path, format!("{}\n{before}", " ".repeat(100_000))).unwrap();
        assert_eq!(last(&path, 0, true).as_deref(), Some("of another call"));
        assert_eq!((size(Path::new("/dev/null")), size(&dir.path().join("none"))), (None, Some(0)));
    }
}

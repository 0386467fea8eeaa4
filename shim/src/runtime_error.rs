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

/// Returns the last error that was written to a file after its first `before` bytes, with the
/// reason in brackets if another process of runc has logged it.
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

/// Returns the last error of a log in JSON. crun writes a value over several lines; youki calls the
/// message `message`.
fn last_of_json(text: &str) -> Option<String> {
    let values = Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok);
    let message = |value: Value| {
        let level = value.get("level")?.as_str()?.to_ascii_lowercase();
        let message = value.get("msg").or_else(|| value.get("message"))?.as_str()?;
        Some((level, message.to_owned()))
    };
    last_of_messages(values.filter_map(message))
}

/// Returns the last message of level `error`. runc's process in the namespaces of the container
/// logs its error as `fatal`; the error of runc itself then only says that this process has ended.
fn last_of_messages(messages: impl Iterator<Item = (String, String)>) -> Option<String> {
    let (mut error, mut reason) = (None, None);
    for (level, message) in messages {
        match level.as_str() {
            "error" => error = Some(message),
            "fatal" => reason = Some(message),
            _ => {}
        }
    }
    Some(match (error?, reason) {
        (error, Some(reason)) => format!("{} ({})", error.trim_end(), reason.trim()),
        (error, None) => error,
    })
}

/// Returns the last error of a log in lines: those of runc are in logfmt, those of crun have the
/// time and the message.
fn last_of_lines(text: &str) -> Option<String> {
    let message = |line: &str| match line.split_once("level=") {
        Some((_, rest)) => {
            let (level, rest) = rest.split_once(' ')?;
            let quoted = rest.trim_start().strip_prefix("msg=")?;
            let mut strings = Deserializer::from_str(quoted).into_iter::<String>();
            // Go has escapes that JSON does not have, and no quotes around a single word.
            let message = strings.next()?.unwrap_or_else(|_| quoted.trim_matches('"').to_owned());
            Some((level.to_owned(), message))
        }
        None => {
            let message = line.split_once("Z: ").map_or(line, |(_, message)| message);
            Some(("error".to_owned(), message.to_owned()))
        }
    };
    last_of_messages(text.lines().filter(|line| !line.trim().is_empty()).filter_map(message))
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
            (
                true,
                "{\"level\":\"fatal\",\"msg\":\"nsexec[7]: no oom_score_adj\"}\n\
                 {\"level\":\"error\",\"msg\":\"EOF\"}\n",
                Some("EOF (nsexec[7]: no oom_score_adj)"),
            ),
            (true, "no JSON", None),
            (
                false,
                "time=\"t\" level=error msg=\"write \\\"99\\\"\"\ntime=\"t\" level=info msg=x\n",
                Some("write \"99\""),
            ),
            (
                false,
                "time=\"t\" level=fatal msg=\"no oom\"\ntime=\"t\" level=error msg=EOF\n",
                Some("EOF (no oom)"),
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

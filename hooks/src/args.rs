//! The command line of the hook, which `nrid` writes into `config.json`.

use crate::Error;
use nri_control::HookKind;
use std::{ffi::OsString, path::PathBuf};

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// Control socket of `nrid`.
    pub(crate) socket: PathBuf,
    /// Key of the container's record.
    pub(crate) record: String,
    /// Time limit of the reply, in seconds.
    pub(crate) timeout: Option<u64>,
    /// The hook that runs.
    pub(crate) kind: HookKind,
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Error> {
        let (mut socket, mut record, mut kind) = (None, None, None);
        let mut timeout = None;
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--socket") => socket = words.next().map(PathBuf::from),
                Some("--record") => record = words.next().and_then(|r| r.into_string().ok()),
                // The flag keeps this name, since older releases wrote it to config.json. A value
                // that cannot be parsed must not fail a container: the default applies.
                Some("--patience") => {
                    timeout = words.next().and_then(|seconds| seconds.to_str()?.parse().ok())
                }
                Some("createRuntime") => kind = Some(HookKind::CreateRuntime),
                Some("poststart") => kind = Some(HookKind::Poststart),
                Some("poststop") => kind = Some(HookKind::Poststop),
                _ => return Err(Error::Usage(word)),
            }
        }
        match (socket, record, kind) {
            (Some(socket), Some(record), Some(kind)) => Ok(Self { socket, record, timeout, kind }),
            (None, ..) => Err(Error::Missing("--socket PATH")),
            (_, None, _) => Err(Error::Missing("--record KEY")),
            (.., None) => Err(Error::Missing("createRuntime, poststart or poststop")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(Into::into)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_command_line_names_socket_record_and_hook() {
        let args = |kind| {
            let (socket, record) = ("/s".into(), "k".to_owned());
            Ok(Args { socket, record, timeout: None, kind })
        };
        let parsed = parse("--socket /s --record k --patience 70 poststop").unwrap();
        assert_eq!(parsed.timeout, Some(70));
        assert_eq!(parse("--socket /s --record k createRuntime"), args(HookKind::CreateRuntime));
        assert_eq!(parse("poststop --record k --socket /s"), args(HookKind::Poststop));
        assert_eq!(parse("--socket /s --record k poststart"), args(HookKind::Poststart));
        for (line, part) in [
            ("", "--socket PATH"),
            ("--socket /s", "--record KEY"),
            ("--socket /s --record k", "createRuntime"),
            ("--socket /s --record k prestart", "\"prestart\""),
            ("--socket", "--socket PATH"),
        ] {
            assert!(parse(line).is_err_and(|e| e.contains(part)), "{line}");
        }
    }
}

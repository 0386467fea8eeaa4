//! What was typed behind `exec`: the container's id and the process document. Behind the id stands
//! a command, with options of its own.

use crate::options::{EXEC, Item, Options};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

/// An `exec` whose process is a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExecArgs {
    /// Container id.
    pub(crate) id: OsString,
    /// `--process`
    pub(crate) process: OsString,
    /// Where its value stands: place and offset.
    pub(crate) at: (usize, usize),
    /// `--preserve-fds`
    pub(crate) preserve_fds: Option<OsString>,
}

/// Reads the arguments behind `exec`. `None`: nothing for us to do, the process is not a document.
///
/// Options count up to the id: runc and crun take what follows for the command. An option that we
/// do not know may or may not have the next word as its value; that word is the id only where it
/// ends the line, which is where engines put it.
pub(crate) fn read(arguments: &[OsString]) -> Option<ExecArgs> {
    let (mut process, mut preserve_fds, mut unsure) = (None, None, false);
    for item in Options::new(arguments, EXEC) {
        let before = std::mem::take(&mut unsure);
        match item {
            Item::Known { name: "help" | "usage", .. } => return None,
            Item::Known { name: "process", value, at } => {
                process = value.map(|v| (v.to_owned(), at))
            }
            Item::Known { name: "preserve-fds", value, .. } => {
                preserve_fds = value.map(OsStr::to_owned)
            }
            Item::Known { .. } | Item::End(_) => {}
            Item::Unknown(place) => unsure = !arguments[place].as_bytes().contains(&b'='),
            Item::Word(place) if before && place + 1 < arguments.len() => {}
            Item::Word(place) => {
                // runc reads an empty value as not given.
                let (process, at) = process.filter(|(value, _)| !value.is_empty())?;
                return Some(ExecArgs { id: arguments[place].clone(), process, at, preserve_fds });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn with_a_document() {
        for (line, at) in [
            ("--process /f id", (1, 0)),
            ("--process=/f id", (0, 10)),
            ("-process /f id", (1, 0)),
            ("-process=/f id", (0, 9)),
            ("-p /f id", (1, 0)),
            ("-p/f id", (0, 2)),
            ("-p=/f id", (0, 3)),
            ("-dp /f id", (1, 0)),
            ("-tdp/f id", (0, 4)),
            ("--p /f id", (1, 0)),
            ("--detach --pid-file --process -p /f id", (4, 0)),
            ("--process /other --process /f id", (3, 0)),
            ("--process /f -- id", (1, 0)),
            ("--process /f id -p /g", (1, 0)),
            ("--process /f id command --process=/g --env A=b", (1, 0)),
            (
                "--console-socket a --pidfd-socket b --cwd c --env d -e e --user f -u g -p /f id",
                (15, 0),
            ),
            (
                "--additional-gids 1 -g 2 --cap a -c b --process-label c --apparmor d --cgroup e -p /f id",
                (15, 0),
            ),
            (
                "--tty --no-new-privs --ignore-paused --tty=false --no-subreaper --process /f id",
                (6, 0),
            ),
            ("--new-option value --process /f id", (3, 0)),
            ("--new-option=value --process /f id", (2, 0)),
            ("--new-switch --process /f id", (2, 0)),
            ("--process /f --new-switch id", (1, 0)),
            ("--process /f --new-option value id", (1, 0)),
        ] {
            let expected =
                ExecArgs { id: "id".into(), process: "/f".into(), at, preserve_fds: None };
            assert_eq!(read(&words(line)), Some(expected), "{line}");
        }
        for line in ["--preserve-fds 3 -p /f id", "--preserve-fds=3 -p /f id"] {
            assert_eq!(read(&words(line)).unwrap().preserve_fds, Some("3".into()), "{line}");
        }
    }

    #[test]
    fn without() {
        for line in [
            "",
            "id",
            "id command",
            "id --process /f",
            "id command --process /f",
            "--env --process id command",
            "--process /f",
            "--process= id",
            "--process",
            "--help --process /f id",
            "-- --process /f id",
            "--new-switch id --process /f command",
        ] {
            let read = read(&words(line));
            assert!(read.as_ref().is_none_or(|r| r.id == "command"), "{line}: {read:?}");
        }
    }
}

//! Arguments after `exec`: the container id and the process file. A command with other flags may
//! follow the id.

use crate::{
    flags::EXEC,
    options::{Item, Options, ValuePosition},
};

/// An `exec` whose process is described by a file.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecArgs<'a> {
    /// Container id.
    pub id: &'a [u8],
    /// `--process`
    pub process: &'a [u8],
    /// Position of the value of `--process`.
    pub at: ValuePosition,
    /// `--preserve-fds`
    pub preserve_fds: Option<&'a [u8]>,
}

/// Reads the arguments after `exec`. Returns `None` if no file describes the process.
///
/// Flags are read up to the id: for runc and crun the rest is the command. The word after an
/// unknown flag may be the flag's value; it is read as the id only if it is the last argument,
/// where engines put the id.
pub fn read<'a>(arguments: &'a [&'a [u8]]) -> Option<ExecArgs<'a>> {
    let (mut process, mut preserve_fds, mut after_unknown) = (None, None, false);
    for item in Options::new(arguments, EXEC) {
        let is_after_unknown = std::mem::take(&mut after_unknown);
        match item {
            Item::Known { name: "help" | "usage", .. } => return None,
            Item::Known { name: "process", value, at } => process = value.map(|v| (v, at)),
            Item::Known { name: "preserve-fds", value, .. } => preserve_fds = value,
            Item::Known { .. } | Item::End => {}
            Item::Unknown(index) => after_unknown = !arguments[index].contains(&b'='),
            Item::Word(index) if is_after_unknown && index + 1 < arguments.len() => {}
            Item::Word(index) => {
                // runc treats an empty value as absent.
                let (process, at) = process.filter(|(value, _)| !value.is_empty())?;
                return Some(ExecArgs { id: arguments[index], process, at, preserve_fds });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split_whitespace().map(str::as_bytes).collect()
    }

    #[test]
    fn an_exec_with_a_process_file_is_read_in_every_form() {
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
                "--additional-gids 1 -g 2 --cap a -c b --process-label c --apparmor d --cgroup e \
                 -p /f id",
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
            let expected = ExecArgs { id: b"id", process: b"/f", at, preserve_fds: None };
            assert_eq!(read(&words(line)), Some(expected), "{line}");
        }
        for line in ["--preserve-fds 3 -p /f id", "--preserve-fds=3 -p /f id"] {
            assert_eq!(read(&words(line)).unwrap().preserve_fds, Some(&b"3"[..]), "{line}");
        }
    }

    #[test]
    fn an_exec_without_a_process_file_is_none() {
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
        ] {
            assert_eq!(read(&words(line)), None, "{line}");
        }
    }

    #[test]
    fn a_word_after_an_unknown_flag_is_not_the_id_if_other_arguments_follow() {
        let words = words("--new-switch id --process /f command");
        assert_eq!(read(&words).unwrap().id, b"command");
    }
}

//! Arguments after `exec`: the container id, the process file, and the flags that give rights. A
//! command with other flags may follow the id.

use crate::{
    flags::EXEC,
    options::{Item, Options, ValuePosition, is_on},
};

/// An `exec` whose process differs from that of `config.json` in more than its command.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecArgs<'a> {
    /// Container id.
    pub id: &'a [u8],
    /// `--process`
    pub process: Option<ProcessFlag<'a>>,
    /// `--preserve-fds`
    pub preserve_fds: Option<&'a [u8]>,
    /// Flags that give rights. Runtimes ignore them if there is a process file.
    pub rights: RightsFlags<'a>,
}

/// The value of `--process`, and the position at which the value can be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFlag<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Its position.
    pub at: ValuePosition,
}

/// The flags of `exec` that can give to the process what the container does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RightsFlags<'a> {
    /// `--cap`
    pub caps: Vec<&'a [u8]>,
    /// Whether `--no-new-privs=false` is given.
    pub new_privs: bool,
    /// `--apparmor`
    pub apparmor: Option<&'a [u8]>,
    /// `--process-label`
    pub process_label: Option<&'a [u8]>,
    /// `--user`
    pub user: Option<&'a [u8]>,
    /// `--additional-gids`
    pub additional_gids: Vec<&'a [u8]>,
}

/// Reads the arguments after `exec`. Returns `None` if the runtime takes the process from
/// `config.json`, and only its command, environment, terminal and descriptors from flags.
///
/// Flags are read up to the id: for runc and crun the rest is the command. The word after an
/// unknown flag may be the flag's value; it is read as the id only if it is the last argument,
/// where engines put the id.
pub fn read<'a>(arguments: &'a [&'a [u8]]) -> Option<ExecArgs<'a>> {
    let (mut process, mut preserve_fds, mut after_unknown) = (None, None, false);
    let mut rights = RightsFlags::default();
    for item in Options::new(arguments, EXEC) {
        let is_after_unknown = std::mem::take(&mut after_unknown);
        match item {
            Item::Known { name: "help" | "usage", .. } => return None,
            Item::Known { name: "process", value, at } => {
                process = value.map(|value| ProcessFlag { value, at });
            }
            Item::Known { name: "preserve-fds", value, .. } => preserve_fds = value,
            Item::Known { name, value, .. } => rights.take(name, value),
            Item::End => {}
            Item::Unknown(index) => after_unknown = !arguments[index].contains(&b'='),
            Item::Word(index) if is_after_unknown && index + 1 < arguments.len() => {}
            Item::Word(index) => {
                // runc treats an empty value as absent.
                let process = process.filter(|process| !process.value.is_empty());
                let is_usual = process.is_none() && rights == RightsFlags::default();
                let id = arguments[index];
                return (!is_usual).then_some(ExecArgs { id, process, preserve_fds, rights });
            }
        }
    }
    None
}

impl<'a> RightsFlags<'a> {
    fn take(&mut self, name: &str, value: Option<&'a [u8]>) {
        match name {
            "cap" => self.caps.extend(value),
            "no-new-privs" => self.new_privs = !is_on(value),
            "apparmor" => self.apparmor = value,
            "process-label" => self.process_label = value,
            "user" => self.user = value,
            "additional-gids" => self.additional_gids.extend(value),
            _ => {}
        }
    }
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
            let words = words(line);
            let args = read(&words).unwrap();
            let process = Some(ProcessFlag { value: b"/f", at });
            assert_eq!((args.id, args.process), (&b"id"[..], process), "{line}");
        }
        for line in ["--preserve-fds 3 -p /f id", "--preserve-fds=3 -p /f id"] {
            assert_eq!(read(&words(line)).unwrap().preserve_fds, Some(&b"3"[..]), "{line}");
        }
    }

    #[test]
    fn flags_that_give_rights_are_read_in_every_form() {
        let none = RightsFlags::default;
        let caps = |caps| RightsFlags { caps, ..none() };
        for (line, expected) in [
            ("--cap A id sh", caps(vec![&b"A"[..]])),
            ("-c A --cap=B -cC id sh -c D", caps(vec![&b"A"[..], b"B", b"C"])),
            ("-tc A id sh", caps(vec![&b"A"[..]])),
            ("--no-new-privs=false id sh", RightsFlags { new_privs: true, ..none() }),
            ("--apparmor x id sh", RightsFlags { apparmor: Some(b"x"), ..none() }),
            ("--apparmor= id sh", RightsFlags { apparmor: Some(b""), ..none() }),
            ("--process-label=x id sh", RightsFlags { process_label: Some(b"x"), ..none() }),
            ("-u 0 id sh", RightsFlags { user: Some(b"0"), ..none() }),
            ("-u0:0 id sh", RightsFlags { user: Some(b"0:0"), ..none() }),
            (
                "-g 1 --add=2 id sh",
                RightsFlags { additional_gids: vec![&b"1"[..], b"2"], ..none() },
            ),
        ] {
            let words = words(line);
            let args = read(&words).unwrap();
            assert_eq!((args.id, args.process), (&b"id"[..], None), "{line}");
            assert_eq!(args.rights, expected, "{line}");
        }
    }

    #[test]
    fn an_exec_with_the_process_of_the_container_is_none() {
        for line in [
            "",
            "id",
            "id command",
            "id --process /f",
            "id --cap A",
            "--no-new-privs --env A=b --cwd / --cgroup c id sh",
            "--no-new-privs=true id sh",
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

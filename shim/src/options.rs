//! Options of the low-level runtimes as tables, and an iterator that reads an argv with one.
//!
//! Only what decides where a value ends is kept. The tables are the union of runc, crun and youki:
//! an option that one of them lacks is refused by that one, whatever we make of it. Forms, likewise
//! the union: `--name value`, `--name=value`, `-name value` and `-name=value` (Go), unambiguous
//! beginnings `--nam value` (argp), `-n value`, `-nvalue`, `-n=value`, and clusters `-dn value`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// An option: long name, short name (0: none), whether it takes a value.
type Entry = (&'static str, u8, bool);

/// Options of a verb.
pub(crate) type Table = &'static [Entry];

/// Before the verb; ours are those with `nri-`.
pub(crate) const GLOBAL: Table = &[
    ("nri-runtime", 0, true),
    ("nri-config", 0, true),
    ("nri-version", 0, false),
    ("cgroup-manager", 0, true),
    ("criu", 0, true),
    ("debug", 0, false),
    ("help", b'h', false),
    ("log", b'l', true),
    ("log-format", 0, true),
    ("log-level", 0, true),
    ("root", b'r', true),
    ("rootless", 0, true),
    ("systemd-cgroup", b's', false),
    ("usage", b'?', false),
    ("version", b'v', false),
    ("version", b'V', false),
];

pub(crate) const CREATE: Table = &[
    ("bundle", b'b', true),
    ("config", b'f', true),
    ("console-socket", b'c', true),
    ("help", b'h', false),
    ("no-new-keyring", 0, false),
    ("no-pivot", 0, false),
    ("no-subreaper", 0, false),
    ("pid-file", b'p', true),
    ("pidfd-socket", 0, true),
    ("preserve-fds", 0, true),
    ("usage", b'?', false),
];

pub(crate) const RUN: Table = &[
    ("bundle", b'b', true),
    ("config", b'f', true),
    ("console-socket", b'c', true),
    ("detach", b'd', false),
    ("help", b'h', false),
    ("keep", 0, false),
    ("no-new-keyring", 0, false),
    ("no-pivot", 0, false),
    ("no-subreaper", 0, false),
    ("pid-file", b'p', true),
    ("pidfd-socket", 0, true),
    ("preserve-fds", 0, true),
    ("usage", b'?', false),
];

pub(crate) const RESTORE: Table = &[
    ("auto-dedup", 0, false),
    ("bundle", b'b', true),
    ("console-socket", 0, true),
    ("detach", b'd', false),
    ("empty-ns", 0, true),
    ("ext-unix-sk", 0, false),
    ("file-locks", 0, false),
    ("help", b'h', false),
    ("image-path", 0, true),
    ("lazy-pages", 0, false),
    ("lsm-mount-context", 0, true),
    ("lsm-profile", 0, true),
    ("manage-cgroups-mode", 0, true),
    ("no-pivot", 0, false),
    ("no-subreaper", 0, false),
    ("pid-file", 0, true),
    ("shell-job", 0, false),
    ("tcp-established", 0, false),
    ("usage", b'?', false),
    ("work-path", 0, true),
];

pub(crate) const START: Table = &[("help", b'h', false), ("usage", b'?', false)];

pub(crate) const UPDATE: Table = &[
    ("blkio-weight", 0, true),
    ("cpu-burst", 0, true),
    ("cpu-idle", 0, true),
    ("cpu-period", 0, true),
    ("cpu-quota", 0, true),
    ("cpu-rt-period", 0, true),
    ("cpu-rt-runtime", 0, true),
    ("cpu-share", 0, true),
    ("cpuset-cpus", 0, true),
    ("cpuset-mems", 0, true),
    ("help", b'h', false),
    ("kernel-memory", 0, true),
    ("kernel-memory-tcp", 0, true),
    ("l3-cache-schema", 0, true),
    ("mem-bw-schema", 0, true),
    ("memory", 0, true),
    ("memory-reservation", 0, true),
    ("memory-swap", 0, true),
    ("pids-limit", 0, true),
    ("resources", b'r', true),
    ("usage", b'?', false),
];

pub(crate) const DELETE: Table = &[
    ("force", b'f', false),
    ("help", b'h', false),
    ("regex", b'r', false),
    ("usage", b'?', false),
];

/// Up to the container's id: what follows is a command. `no-subreaper` and `console` are runc's of
/// old.
pub(crate) const EXEC: Table = &[
    ("additional-gids", b'g', true),
    ("apparmor", 0, true),
    ("cap", b'c', true),
    ("cgroup", 0, true),
    ("console", 0, true),
    ("console-socket", 0, true),
    ("cwd", 0, true),
    ("detach", b'd', false),
    ("env", b'e', true),
    ("help", b'h', false),
    ("ignore-paused", 0, false),
    ("no-new-privs", 0, false),
    ("no-subreaper", 0, false),
    ("pid-file", 0, true),
    ("pidfd-socket", 0, true),
    ("preserve-fds", 0, true),
    ("process", b'p', true),
    ("process-label", 0, true),
    ("tty", b't', false),
    ("usage", b'?', false),
    ("user", b'u', true),
];

/// What stands at a place of argv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// An option of the table.
    Known {
        /// Long name.
        name: &'static str,
        /// Its value, also where it takes none by itself (`--detach=false`).
        value: Option<&'a OsStr>,
        /// The argument that holds the value (or the option), and where in it the value begins.
        at: (usize, usize),
    },
    /// An option that the table does not have, at this place; without `=` it may or may not take
    /// the next argument.
    Unknown(usize),
    /// Not an option, at this place.
    Word(usize),
    /// `--`, at this place: no option follows.
    End(usize),
}

/// Reads arguments with a table. `next` is the place to be read next.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    arguments: &'a [OsString],
    table: Table,
    pub(crate) next: usize,
    /// Inside a cluster of short options: place and offset.
    cluster: Option<(usize, usize)>,
    ended: bool,
}

impl<'a> Options<'a> {
    pub(crate) fn new(arguments: &'a [OsString], table: Table) -> Self {
        Self { arguments, table, next: 0, cluster: None, ended: false }
    }

    fn long(&mut self, place: usize, start: usize) -> Option<Item<'a>> {
        let bytes = self.arguments[place].as_bytes();
        let body = &bytes[start..];
        let equals = body.iter().position(|b| *b == b'=');
        let typed = &body[..equals.unwrap_or(body.len())];
        let &(name, _, takes) = find_long(self.table, typed, start == 2)?;
        self.next = place + 1;
        Some(match equals {
            Some(e) => self.inline(name, place, start + e + 1),
            None => self.separate(name, takes, place),
        })
    }

    fn short(&mut self, place: usize, offset: usize) -> Item<'a> {
        let bytes = self.arguments[place].as_bytes();
        self.next = place + 1;
        self.cluster = None;
        let Some(&(name, _, takes)) = self.table.iter().find(|e| e.1 != 0 && e.1 == bytes[offset])
        else {
            return Item::Unknown(place);
        };
        match bytes.get(offset + 1) {
            None => self.separate(name, takes, place),
            Some(b'=') => self.inline(name, place, offset + 2),
            Some(_) if takes => self.inline(name, place, offset + 1),
            Some(_) => {
                self.cluster = Some((place, offset + 1));
                Item::Known { name, value: None, at: (place, 0) }
            }
        }
    }

    fn inline(&self, name: &'static str, place: usize, offset: usize) -> Item<'a> {
        let value = OsStr::from_bytes(&self.arguments[place].as_bytes()[offset..]);
        Item::Known { name, value: Some(value), at: (place, offset) }
    }

    fn separate(&mut self, name: &'static str, takes: bool, place: usize) -> Item<'a> {
        match self.arguments.get(place + 1) {
            Some(value) if takes => {
                self.next = place + 2;
                Item::Known { name, value: Some(value), at: (place + 1, 0) }
            }
            _ => Item::Known { name, value: None, at: (place, 0) },
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if let Some((place, offset)) = self.cluster {
            return Some(self.short(place, offset));
        }
        let place = self.next;
        let bytes = self.arguments.get(place)?.as_bytes();
        self.next = place + 1;
        if self.ended || bytes.len() < 2 || bytes[0] != b'-' {
            return Some(Item::Word(place));
        }
        if bytes == b"--" {
            self.ended = true;
            return Some(Item::End(place));
        }
        if bytes[1] == b'-' {
            return Some(self.long(place, 2).unwrap_or(Item::Unknown(place)));
        }
        Some(match self.long(place, 1) {
            Some(item) => item,
            None => self.short(place, 1),
        })
    }
}

/// By full name; with two dashes also by the short one (Go) and by a beginning that fits one option
/// only (argp).
fn find_long(table: Table, typed: &[u8], two_dashes: bool) -> Option<&'static Entry> {
    if let Some(entry) = table.iter().find(|e| e.0.as_bytes() == typed) {
        return (typed.len() > 1).then_some(entry);
    }
    if !two_dashes || typed.is_empty() {
        return None;
    }
    if let [letter] = typed
        && let Some(entry) = table.iter().find(|e| e.1 == *letter)
    {
        return Some(entry);
    }
    // Ours have to be written in full: what is abbreviated is the runtime's.
    let mut fitting =
        table.iter().filter(|e| e.0.as_bytes().starts_with(typed) && !e.0.starts_with("nri-"));
    let first = fitting.next()?;
    fitting.all(|e| e.0 == first.0).then_some(first)
}

/// The arguments with another value at `at`, as an item says where it stands.
pub(crate) fn with_value(
    arguments: &[OsString],
    at: (usize, usize),
    value: &[u8],
) -> Vec<OsString> {
    let (place, offset) = at;
    let mut arguments = arguments.to_vec();
    let mut argument = arguments[place].as_bytes()[..offset].to_vec();
    argument.extend_from_slice(value);
    arguments[place] = OsString::from_vec(argument);
    arguments
}

/// How Go reads the value of a flag that is on or off.
pub(crate) fn is_on(value: Option<&OsStr>) -> bool {
    !matches!(value.map(OsStr::as_bytes), Some(b"0" | b"f" | b"F" | b"false" | b"False" | b"FALSE"))
}

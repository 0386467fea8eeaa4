//! One table of the flags of the low-level runtimes: the verbs of each flag, its short form, and
//! whether it takes a value.
//!
//! The table has only the facts that are needed to distinguish values from other arguments. It has
//! the flags of runc, crun and youki together: the real runtime itself refuses flags that it lacks.

/// Set of verbs, with one bit for each verb.
pub type Verbs = u8;

/// Flags before the verb.
pub const GLOBAL: Verbs = 1 << 0;
/// Flags of `create`.
pub const CREATE: Verbs = 1 << 1;
/// Flags of `run`.
pub const RUN: Verbs = 1 << 2;
/// Flags of `restore`.
pub const RESTORE: Verbs = 1 << 3;
/// Flags of `start`.
pub const START: Verbs = 1 << 4;
/// Flags of `update`.
pub const UPDATE: Verbs = 1 << 5;
/// Flags of `delete`.
pub const DELETE: Verbs = 1 << 6;
/// Flags of `exec` up to the container id: a command with other flags may follow.
pub const EXEC: Verbs = 1 << 7;
const ALL: Verbs = Verbs::MAX;

const VALUE: bool = true;
const SWITCH: bool = false;
const NO_SHORT: u8 = 0;

/// Prefix of our own flags, which the real runtime does not know.
pub const OWN_PREFIX: &str = "nri-";

/// A flag of some verbs.
#[derive(Debug, PartialEq, Eq)]
pub struct Flag {
    /// Long form, without dashes.
    pub name: &'static str,
    short: u8,
    /// Whether a value follows, in the same argument or the next.
    pub takes_value: bool,
    verbs: Verbs,
}

const fn flag(name: &'static str, short: u8, takes_value: bool, verbs: Verbs) -> Flag {
    Flag { name, short, takes_value, verbs }
}

/// All flags, our own first. Old releases of runc have `console` and `no-subreaper` for `exec`.
const FLAGS: &[Flag] = &[
    flag("nri-config", NO_SHORT, VALUE, GLOBAL),
    flag("nri-help", NO_SHORT, SWITCH, GLOBAL),
    flag("nri-runtime", NO_SHORT, VALUE, GLOBAL),
    flag("nri-version", NO_SHORT, SWITCH, GLOBAL),
    flag("additional-gids", b'g', VALUE, EXEC),
    flag("apparmor", NO_SHORT, VALUE, EXEC),
    flag("auto-dedup", NO_SHORT, SWITCH, RESTORE),
    flag("blkio-weight", NO_SHORT, VALUE, UPDATE),
    flag("bundle", b'b', VALUE, CREATE | RUN | RESTORE),
    flag("cap", b'c', VALUE, EXEC),
    flag("cgroup", NO_SHORT, VALUE, EXEC),
    flag("cgroup-manager", NO_SHORT, VALUE, GLOBAL),
    flag("config", b'f', VALUE, CREATE | RUN),
    flag("console", NO_SHORT, VALUE, EXEC),
    flag("console-socket", b'c', VALUE, CREATE | RUN),
    flag("console-socket", NO_SHORT, VALUE, RESTORE | EXEC),
    flag("cpu-burst", NO_SHORT, VALUE, UPDATE),
    flag("cpu-idle", NO_SHORT, VALUE, UPDATE),
    flag("cpu-period", NO_SHORT, VALUE, UPDATE),
    flag("cpu-quota", NO_SHORT, VALUE, UPDATE),
    flag("cpu-rt-period", NO_SHORT, VALUE, UPDATE),
    flag("cpu-rt-runtime", NO_SHORT, VALUE, UPDATE),
    flag("cpu-share", NO_SHORT, VALUE, UPDATE),
    flag("cpuset-cpus", NO_SHORT, VALUE, UPDATE),
    flag("cpuset-mems", NO_SHORT, VALUE, UPDATE),
    flag("criu", NO_SHORT, VALUE, GLOBAL),
    flag("cwd", NO_SHORT, VALUE, EXEC),
    flag("debug", NO_SHORT, SWITCH, GLOBAL),
    flag("detach", b'd', SWITCH, RUN | RESTORE | EXEC),
    flag("empty-ns", NO_SHORT, VALUE, RESTORE),
    flag("env", b'e', VALUE, EXEC),
    flag("ext-unix-sk", NO_SHORT, SWITCH, RESTORE),
    flag("file-locks", NO_SHORT, SWITCH, RESTORE),
    flag("force", b'f', SWITCH, DELETE),
    flag("help", b'h', SWITCH, ALL),
    flag("ignore-paused", NO_SHORT, SWITCH, EXEC),
    flag("image-path", NO_SHORT, VALUE, RESTORE),
    flag("keep", NO_SHORT, SWITCH, RUN),
    flag("kernel-memory", NO_SHORT, VALUE, UPDATE),
    flag("kernel-memory-tcp", NO_SHORT, VALUE, UPDATE),
    flag("l3-cache-schema", NO_SHORT, VALUE, UPDATE),
    flag("lazy-pages", NO_SHORT, SWITCH, RESTORE),
    flag("log", b'l', VALUE, GLOBAL),
    flag("log-format", NO_SHORT, VALUE, GLOBAL),
    flag("log-level", NO_SHORT, VALUE, GLOBAL),
    flag("lsm-mount-context", NO_SHORT, VALUE, RESTORE),
    flag("lsm-profile", NO_SHORT, VALUE, RESTORE),
    flag("manage-cgroups-mode", NO_SHORT, VALUE, RESTORE),
    flag("mem-bw-schema", NO_SHORT, VALUE, UPDATE),
    flag("memory", NO_SHORT, VALUE, UPDATE),
    flag("memory-reservation", NO_SHORT, VALUE, UPDATE),
    flag("memory-swap", NO_SHORT, VALUE, UPDATE),
    flag("no-new-keyring", NO_SHORT, SWITCH, CREATE | RUN),
    flag("no-new-privs", NO_SHORT, SWITCH, EXEC),
    flag("no-pivot", NO_SHORT, SWITCH, CREATE | RUN | RESTORE),
    flag("no-subreaper", NO_SHORT, SWITCH, CREATE | RUN | RESTORE | EXEC),
    flag("pid-file", b'p', VALUE, CREATE | RUN),
    flag("pid-file", NO_SHORT, VALUE, RESTORE | EXEC),
    flag("pidfd-socket", NO_SHORT, VALUE, CREATE | RUN | EXEC),
    flag("pids-limit", NO_SHORT, VALUE, UPDATE),
    flag("preserve-fds", NO_SHORT, VALUE, CREATE | RUN | EXEC),
    flag("process", b'p', VALUE, EXEC),
    flag("process-label", NO_SHORT, VALUE, EXEC),
    flag("regex", b'r', SWITCH, DELETE),
    flag("resources", b'r', VALUE, UPDATE),
    flag("root", b'r', VALUE, GLOBAL),
    flag("rootless", NO_SHORT, VALUE, GLOBAL),
    flag("shell-job", NO_SHORT, SWITCH, RESTORE),
    flag("systemd-cgroup", b's', SWITCH, GLOBAL),
    flag("tcp-established", NO_SHORT, SWITCH, RESTORE),
    flag("tty", b't', SWITCH, EXEC),
    flag("usage", b'?', SWITCH, ALL),
    flag("user", b'u', VALUE, EXEC),
    flag("version", b'v', SWITCH, GLOBAL),
    flag("version", b'V', SWITCH, GLOBAL),
    flag("work-path", NO_SHORT, VALUE, RESTORE),
];

/// Returns the names of our own flags.
pub fn own_names() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().map(|flag| flag.name).filter(|name| name.starts_with(OWN_PREFIX))
}

fn flags_of(verbs: Verbs) -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(move |flag| flag.verbs & verbs != 0)
}

/// Returns the flag with this short form.
pub fn by_short(verbs: Verbs, letter: u8) -> Option<&'static Flag> {
    flags_of(verbs).find(|flag| flag.short != NO_SHORT && flag.short == letter)
}

/// Returns the flag with this long form. After two dashes, also returns the flag with this short
/// form (Go) or the only flag with this prefix (argp).
pub fn by_long(verbs: Verbs, typed: &[u8], two_dashes: bool) -> Option<&'static Flag> {
    if let Some(flag) = flags_of(verbs).find(|flag| flag.name.as_bytes() == typed) {
        return (typed.len() > 1).then_some(flag);
    }
    if !two_dashes || typed.is_empty() {
        return None;
    }
    if let [letter] = typed
        && let Some(flag) = by_short(verbs, *letter)
    {
        return Some(flag);
    }
    // Our own flags have no abbreviations: a prefix may be a flag of the runtime.
    let mut matching = flags_of(verbs).filter(|flag| {
        flag.name.as_bytes().starts_with(typed) && !flag.name.starts_with(OWN_PREFIX)
    });
    let first = matching.next()?;
    matching.all(|flag| flag.name == first.name).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_a_verb_is_found_by_name_prefix_and_letter() {
        let name = |flag: Option<&'static Flag>| flag.map(|flag| flag.name);
        for (verbs, typed, two_dashes, expected) in [
            (CREATE, "bundle", true, Some("bundle")),
            (CREATE, "bundle", false, Some("bundle")),
            (CREATE, "bund", true, Some("bundle")),
            (CREATE, "bund", false, None),
            (START, "bundle", true, None),
            (CREATE, "pid", true, None),
            (RESTORE, "pid", true, Some("pid-file")),
            (CREATE, "b", true, Some("bundle")),
            (GLOBAL, "nri-run", true, None),
            (GLOBAL, "vers", true, Some("version")),
            (GLOBAL, "", true, None),
        ] {
            assert_eq!(name(by_long(verbs, typed.as_bytes(), two_dashes)), expected, "{typed}");
        }
        for (verbs, letter, expected) in [
            (CREATE, b'c', Some("console-socket")),
            (RESTORE, b'c', None),
            (EXEC, b'c', Some("cap")),
            (UPDATE, b'r', Some("resources")),
            (DELETE, b'r', Some("regex")),
            (GLOBAL, b'V', Some("version")),
            (START, 0, None),
        ] {
            assert_eq!(name(by_short(verbs, letter)), expected, "{}", char::from(letter));
        }
    }

    #[test]
    fn a_verb_has_each_flag_and_letter_once() {
        for verb in 0..Verbs::BITS {
            let flags: Vec<_> = flags_of(1 << verb).collect();
            for (at, flag) in flags.iter().enumerate() {
                let before = &flags[..at];
                // `version` is twice in the table: -v of runc and -V of crun.
                let named = before.iter().any(|f| f.name == flag.name && f.name != "version");
                let lettered =
                    flag.short != NO_SHORT && before.iter().any(|f| f.short == flag.short);
                assert!(!named && !lettered, "{flag:?}");
            }
        }
    }
}

//! The options before the verb in a call of the runtime, in the forms of runc (Go), crun (argp) and
//! youki (clap).

use nri_files::OsText;
use std::os::unix::ffi::OsStrExt;

/// A known option: long name, letter, and whether a value follows.
type KnownOption = (&'static str, Option<u8>, bool);

const OPTIONS: [KnownOption; 10] = [
    ("cgroup-manager", None, true),
    ("criu", None, true),
    ("debug", None, false),
    ("log", Some(b'l'), true),
    ("log-format", None, true),
    ("log-level", None, true),
    ("root", Some(b'r'), true),
    ("rootless", None, true),
    ("systemd-cgroup", Some(b's'), false),
    ("version", None, false),
];

/// Values that turn off a boolean option (`strconv.ParseBool`).
const OFF: [&[u8]; 6] = [b"0", b"f", b"F", b"false", b"False", b"FALSE"];

/// An option with its value.
#[derive(Debug, PartialEq, Eq)]
struct GlobalOption<'a> {
    /// Long name; `None` if the option is unknown.
    name: Option<&'static str>,
    value: Option<&'a [u8]>,
    /// Arguments of the option: one or two.
    arguments: &'a [OsText],
}

/// Splits the arguments before the verb into options.
fn options(globals: &[OsText]) -> Vec<GlobalOption<'_>> {
    let mut found = Vec::new();
    let mut rest = globals;
    while let Some(argument) = rest.first() {
        let (known, inline) = split(argument.0.as_bytes());
        let takes_next = known.is_some_and(|known| known.2) && inline.is_none();
        let (arguments, after) = rest.split_at(if takes_next { rest.len().min(2) } else { 1 });
        let next = arguments.get(1).map(|value| value.0.as_bytes());
        found.push(GlobalOption { name: known.map(|k| k.0), value: inline.or(next), arguments });
        rest = after;
    }
    found
}

/// Returns the known option that an argument names, and the option's value if the same argument
/// contains the value.
fn split(argument: &[u8]) -> (Option<&'static KnownOption>, Option<&[u8]>) {
    let is_long = argument.starts_with(b"--");
    let Some(option) = argument.strip_prefix(if is_long { &b"--"[..] } else { b"-" }) else {
        return (None, None);
    };
    let equals = option.iter().position(|b| *b == b'=');
    let typed = &option[..equals.unwrap_or(option.len())];
    let inline = equals.map(|at| &option[at + 1..]);
    if let Some(exact) = OPTIONS.iter().find(|known| known.0.as_bytes() == typed) {
        return (Some(exact), inline);
    }
    if is_long {
        let fits = |known: &&KnownOption| known.0.as_bytes().starts_with(typed);
        let mut fitting = OPTIONS.iter().filter(|known| fits(known));
        let only = fitting.next().filter(|_| !typed.is_empty() && fitting.next().is_none());
        return (only, inline);
    }
    let known = OPTIONS.iter().find(|known| known.1.is_some() && known.1 == typed.first().copied());
    match (known, typed.get(1..)) {
        // The value follows the letter directly.
        (Some(known), Some(value)) if known.2 && !value.is_empty() => {
            (Some(known), Some(&option[1..]))
        }
        _ => (known, inline),
    }
}

/// Returns the global options without `--log` and `--log-format`: runtimes that `nrid` calls must
/// not write into the engine's log.
pub(super) fn without_log(globals: &[OsText]) -> Vec<OsText> {
    let is_kept = |option: &GlobalOption<'_>| !matches!(option.name, Some("log" | "log-format"));
    options(globals).iter().filter(|o| is_kept(o)).flat_map(|o| o.arguments).cloned().collect()
}

/// Whether systemd creates the control groups: `--systemd-cgroup`, or crun's `--cgroup-manager
/// systemd`.
pub(super) fn uses_systemd(globals: &[OsText]) -> bool {
    options(globals).iter().fold(false, |before, option| match option.name {
        Some("systemd-cgroup") => option.value.is_none_or(|value| !OFF.contains(&value)),
        Some("cgroup-manager") => option.value == Some(b"systemd"),
        _ => before,
    })
}

/// Whether containers get control groups: not with crun's `--cgroup-manager disabled`.
pub(super) fn makes_cgroups(globals: &[OsText]) -> bool {
    options(globals).iter().fold(true, |before, option| match option.name {
        Some("systemd-cgroup") => true,
        Some("cgroup-manager") => option.value != Some(b"disabled"),
        _ => before,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<OsText> {
        line.split_whitespace().map(OsText::from).collect()
    }

    #[test]
    fn log_options_of_the_engine_are_removed() {
        for (given, kept) in [
            (
                "--root /r --log /l --log-format=json -log=/x --systemd-cgroup --log-level debug",
                "--root /r --systemd-cgroup --log-level debug",
            ),
            ("-l /l -r /r", "-r /r"),
            ("-l=/l -l/l --log-f json --log-form=json -s", "-s"),
            ("--root --log --debug", "--root --log --debug"),
            ("--log-level -l --unknown -x", "--log-level -l --unknown -x"),
            ("--log", ""),
        ] {
            assert_eq!(without_log(&texts(given)), texts(kept), "{given}");
        }
    }

    #[test]
    fn a_container_without_cgroups_is_recognized() {
        for (given, expected) in [
            ("", true),
            ("--cgroup-manager disabled", false),
            ("--cgroup-m=disabled --root /r", false),
            ("--cgroup-manager=disabled --cgroup-manager=cgroupfs", true),
            ("--cgroup-manager systemd", true),
        ] {
            assert_eq!(makes_cgroups(&texts(given)), expected, "{given}");
        }
    }

    #[test]
    fn every_form_of_the_cgroup_driver_option_is_recognized() {
        for (given, expected) in [
            ("", false),
            ("--systemd-cgroup", true),
            ("-systemd-cgroup", true),
            ("-s", true),
            ("--systemd-cgroup=1", true),
            ("--systemd-cgroup=t", true),
            ("--systemd-cgroup=T", true),
            ("--systemd-cgroup=TRUE", true),
            ("--systemd-cgroup=false", false),
            ("--systemd-cgroup=0", false),
            ("--systemd-cgroup --systemd-cgroup=F", false),
            ("--sys", true),
            ("--cgroup-manager systemd", true),
            ("--cgroup-manager=systemd", true),
            ("--cgroup-m systemd", true),
            ("--cgroup-manager=cgroupfs", false),
            ("--root -s", false),
            ("--root systemd", false),
        ] {
            assert_eq!(uses_systemd(&texts(given)), expected, "{given}");
        }
    }
}

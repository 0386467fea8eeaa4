//! The command line up to the verb: global flags, including our own, and the verb.
//!
//! The scanner never changes an argument and never fails. Arguments that it does not understand
//! are passed to the real runtime unchanged; only our own flags (those that begin with `--nri-`,
//! before the verb only) are removed.

use super::{
    replaced::{bytes, text},
    verbs,
};
use nri_control::Verb;
use nri_passthrough::args::globals;
use std::ffi::OsString;

/// An argv, split at the verb.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// Our own flags.
    pub(crate) own: OwnFlags,
    /// Arguments before the verb, without our own flags.
    pub(crate) globals: Vec<OsString>,
    /// The first argument that is neither a flag nor the value of a flag.
    pub(crate) verb: Option<OsString>,
    /// Arguments after the verb.
    pub(crate) rest: Vec<OsString>,
    /// `--log`
    pub(crate) log: Option<OsString>,
    /// `--log-format`
    pub(crate) log_format: Option<OsString>,
    /// `--root`
    pub(crate) root: Option<OsString>,
    /// Whether a flag requests help or the version, so that the verb, if any, is not run.
    pub(crate) is_help: bool,
}

/// Our own flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnFlags {
    /// `--nri-runtime`
    pub(crate) runtime: Option<OsString>,
    /// `--nri-config`
    pub(crate) config: Option<OsString>,
    /// `--nri-help`
    pub(crate) help: bool,
    /// `--nri-version`
    pub(crate) version: bool,
    /// Name of an own flag without the value that it needs.
    pub(crate) without_value: Option<&'static str>,
}

impl CommandLine {
    /// Splits `arguments` (argv without `argv[0]`).
    pub(crate) fn scan(arguments: &[OsString]) -> Self {
        let bytes = bytes(arguments);
        let mut passed_on = Vec::new();
        let found = globals::scan(&bytes, |range| passed_on.extend_from_slice(&arguments[range]));
        let own = OwnFlags {
            runtime: text(found.nri_runtime),
            config: text(found.nri_config),
            help: found.nri_help,
            version: found.nri_version,
            without_value: found.without_value,
        };
        Self {
            own,
            globals: passed_on,
            verb: found.verb.map(|at| arguments[at].clone()),
            rest: found.verb.map(|at| arguments[at + 1..].to_vec()).unwrap_or_default(),
            log: text(found.log),
            log_format: text(found.log_format),
            root: text(found.root),
            is_help: found.is_help,
        }
    }

    /// Returns the verb, if it carries an event and will be run.
    pub(crate) fn event_verb(&self) -> Option<Verb> {
        self.verb.as_deref().filter(|_| !self.is_help).and_then(verbs::event_verb)
    }

    /// Whether the verb is `exec` and will be run.
    pub(crate) fn is_exec(&self) -> bool {
        !self.is_help && self.verb.as_deref().is_some_and(|v| v == "exec")
    }

    /// Returns the arguments for the real runtime.
    pub(crate) fn forwarded(&self) -> Vec<OsString> {
        self.globals.iter().chain(&self.verb).chain(&self.rest).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{replaced::with_value, verb_args};
    use nri_passthrough::args::{exec_args, verbs::carries_event};
    use std::{
        ffi::OsStr,
        os::unix::ffi::{OsStrExt, OsStringExt},
    };

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    /// Compares globals, verb and rest, and returns everything scanned.
    fn check(line: &str, globals: &str, verb: &str, rest: &str) -> CommandLine {
        let scanned = CommandLine::scan(&words(line));
        assert_eq!(scanned.globals, words(globals), "globals of {line}");
        assert_eq!(scanned.verb.clone().unwrap_or_default(), verb, "verb of {line}");
        assert_eq!(scanned.rest, words(rest), "rest of {line}");
        scanned
    }

    #[test]
    fn the_verb_is_found_behind_any_global_flags() {
        check("", "", "", "");
        check("state x", "", "state", "x");
        let scanned = check(
            "--root /r --log /l --log-format json create --bundle /b id",
            "--root /r --log /l --log-format json",
            "create",
            "--bundle /b id",
        );
        assert_eq!(
            (scanned.root.unwrap(), scanned.log.unwrap(), scanned.log_format.unwrap()),
            ("/r".into(), "/l".into(), "json".into())
        );
        let scanned = check(
            "--root=/r --log=/l --systemd-cgroup start id",
            "--root=/r --log=/l --systemd-cgroup",
            "start",
            "id",
        );
        assert_eq!((scanned.root.unwrap(), scanned.log.unwrap()), ("/r".into(), "/l".into()));
        check("-root /r -log=/l --debug=true run x", "-root /r -log=/l --debug=true", "run", "x");
        check("--rootless true create x", "--rootless true", "create", "x");
        check("--cgroup-manager disabled create x", "--cgroup-manager disabled", "create", "x");
        check("--cgroup-m disabled create x", "--cgroup-m disabled", "create", "x");
        check("-l /log -r /root -s create x", "-l /log -r /root -s", "create", "x");
        check("-- create x", "--", "create", "x");
    }

    #[test]
    fn a_flag_value_with_the_name_of_a_verb_is_not_the_verb() {
        check("--root create start create", "--root create", "start", "create");
        check("--log create state create", "--log create", "state", "create");
        check("kill create", "", "kill", "create");
        check("--rootless create kill x", "--rootless create", "kill", "x");
    }

    #[test]
    fn unknown_flags_pass_through() {
        check("--platform systrap create x", "--platform systrap", "create", "x");
        check("--platform=systrap --net create x", "--platform=systrap --net", "create", "x");
        check("-z create x", "-z", "create", "x");
        check("--unknown", "--unknown", "", "");
        check("frobnicate --bundle x", "", "frobnicate", "--bundle x");
    }

    #[test]
    fn our_own_flags_are_removed_before_the_verb_only() {
        let scanned = check(
            "--nri-runtime /x --root /r --nri-config=/c create --nri-runtime /y z",
            "--root /r",
            "create",
            "--nri-runtime /y z",
        );
        assert_eq!(
            (scanned.own.runtime.unwrap(), scanned.own.config.unwrap()),
            ("/x".into(), "/c".into())
        );
        assert_eq!(
            check("create --nri-runtime", "", "create", "--nri-runtime").own,
            OwnFlags::default()
        );
        assert_eq!(check("--nri-config", "", "", "").own.without_value, Some("nri-config"));
        assert!(check("--nri-version", "", "", "").own.version);
        assert!(check("--nri-help create x", "", "create", "x").own.help);
        check("--nri create x", "--nri", "create", "x");
    }

    #[test]
    fn help_and_version_carry_no_event() {
        for (line, event) in [
            ("create x", true),
            ("--version create x", false),
            ("-v create x", false),
            ("-h create x", false),
            ("--debug create x", true),
            ("state x", false),
            ("exec x create", false),
        ] {
            let scanned = CommandLine::scan(&words(line));
            assert_eq!(scanned.event_verb().is_some(), event, "{line}");
            let carries = carries_event(scanned.verb.unwrap().as_bytes()) && !scanned.is_help;
            assert_eq!(carries, event, "{line}");
        }
        for verb in ["create", "run", "restore", "start", "update", "delete", "exec", "x", ""] {
            let event = verbs::event_verb(OsStr::new(verb));
            assert_eq!(event.is_some(), carries_event(verb.as_bytes()), "{verb}");
        }
    }

    /// Generates arguments of engines and users, also mistyped ones.
    fn argument() -> impl proptest::strategy::Strategy<Value = OsString> {
        use proptest::prelude::*;
        let words = "--|-|-b|--bundle|-p|--process|-tp|-pf|exec|--root|--log|--log-format|-d|-rx|\
                     --resources|create|run|update|state|id|--x|--x=y|--nri|--r=|";
        let known: Vec<&'static str> = words.split('|').collect();
        let any = proptest::collection::vec(any::<u8>().prop_filter("no NUL", |b| *b != 0), 0..6);
        prop_oneof![
            4 => proptest::sample::select(known).prop_map(OsString::from),
            1 => any.prop_map(OsString::from_vec),
        ]
    }

    proptest::proptest! {
        #[test]
        fn arguments_are_forwarded_unchanged(
            arguments in proptest::collection::vec(argument(), 0..8),
        ) {
            let scanned = CommandLine::scan(&arguments);
            proptest::prop_assert_eq!(scanned.forwarded(), arguments);
            let rest = bytes(&scanned.rest);
            if let Some(exec) = exec_args::read(&rest) {
                let replaced = with_value(&scanned.rest, exec.at, b"/p");
                let replaced_bytes = bytes(&replaced);
                let again = exec_args::read(&replaced_bytes).map(|e| (e.id, e.process));
                proptest::prop_assert_eq!(again, Some((exec.id, &b"/p"[..])));
                let differing = replaced.iter().zip(&scanned.rest).filter(|(a, b)| a != b).count();
                proptest::prop_assert!(differing <= 1 && replaced.len() == scanned.rest.len());
            }
            for word in ["create", "run", "restore", "start", "update", "delete"] {
                let verb = verbs::event_verb(OsStr::new(word)).unwrap();
                let args = verb_args::read(verb, &scanned.rest);
                if let Some(resources) = args.resources {
                    let replaced = with_value(&scanned.rest, resources.at, b"-");
                    proptest::prop_assert_eq!(replaced.len(), scanned.rest.len());
                    let again = verb_args::read(verb, &replaced);
                    proptest::prop_assert_eq!(again.resources.map(|r| r.value), Some("-".into()));
                    proptest::prop_assert_eq!(again.id, args.id);
                }
            }
        }
    }

    #[test]
    fn arguments_that_are_not_utf8_are_kept() {
        let odd = OsString::from_vec(b"--log=\xff\xfe".to_vec());
        let scanned = CommandLine::scan(&[
            odd.clone(),
            "create".into(),
            OsString::from_vec(b"\x80".to_vec()),
        ]);
        assert_eq!(scanned.globals, [odd]);
        assert_eq!(scanned.log.unwrap().as_bytes(), b"\xff\xfe");
        assert_eq!(scanned.rest[0].as_bytes(), b"\x80");
    }
}

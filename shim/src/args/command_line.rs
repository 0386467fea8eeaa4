//! The command line up to the verb: global flags, including our own, and the verb.
//!
//! The scanner never changes an argument and never fails. Arguments that it does not understand
//! are passed to the real runtime unchanged; only our own flags (those that begin with `--nri-`,
//! before the verb only) are removed.

use crate::args::replaced::bytes;
use nri_args::{
    exec_args,
    globals::{self, Globals},
    verbs::Verb,
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// An argv, split at the verb.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine<'a> {
    /// Flags before the verb, our own ones included.
    pub(crate) flags: Globals<'a>,
    /// Arguments before the verb, without our own flags.
    pub(crate) globals: Vec<OsString>,
    /// The first argument that is neither a flag nor the value of a flag.
    pub(crate) verb: Option<OsString>,
    /// Arguments after the verb.
    pub(crate) rest: Vec<OsString>,
}

impl<'a> CommandLine<'a> {
    /// Splits `arguments` (argv without `argv[0]`).
    pub(crate) fn scan(arguments: &'a [&'a [u8]]) -> Self {
        let texts = |list: &[&[u8]]| -> Vec<OsString> {
            list.iter().map(|text| OsStr::from_bytes(text).into()).collect()
        };
        let mut globals = Vec::new();
        let flags = globals::scan(arguments, |range| globals.extend(texts(&arguments[range])));
        let (verb, rest) = match flags.verb.map(|at| arguments.split_at(at).1) {
            Some([verb, rest @ ..]) => (Some(OsStr::from_bytes(verb).into()), texts(rest)),
            _ => (None, Vec::new()),
        };
        Self { flags, globals, verb, rest }
    }

    /// `--root`, unless its value is empty.
    pub(crate) fn root(&self) -> Option<&Path> {
        let root = self.flags.root.filter(|root| !root.is_empty());
        root.map(|root| Path::new(OsStr::from_bytes(root)))
    }

    /// Returns the verb, if it carries an event and will be run.
    pub(crate) fn event_verb(&self) -> Option<Verb> {
        self.verb
            .as_deref()
            .filter(|_| !self.flags.is_help)
            .and_then(|verb| Verb::of(verb.as_bytes()))
    }

    /// Whether the real runtime gets these arguments, whatever the settings say.
    pub(crate) fn is_passed_through(&self) -> bool {
        let flags = &self.flags;
        let has_answer = flags.nri_help || flags.nri_version || flags.without_value.is_some();
        !has_answer && !self.execs_other_process() && self.event_verb().is_none()
    }

    /// Whether the verb is an `exec` of a process that a file describes, or with a flag that gives
    /// rights, and will be run. Otherwise the runtime takes the process from `config.json`, which
    /// is adjusted already.
    pub(crate) fn execs_other_process(&self) -> bool {
        !self.flags.is_help
            && self.verb.as_deref().is_some_and(|v| v == "exec")
            && exec_args::read(&bytes(&self.rest)).is_some()
    }

    /// Returns the arguments for the real runtime.
    pub(crate) fn forwarded(&self) -> Vec<OsString> {
        self.globals.iter().chain(&self.verb).chain(&self.rest).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::replaced::with_value;
    use nri_args::verb_args;
    use std::{os::unix::ffi::OsStringExt, sync::Mutex};

    type Arguments = (&'static [OsString], &'static [&'static [u8]]);

    /// What results borrow. It stays until the end of the tests, and is no leak.
    static KEPT: Mutex<Vec<Arguments>> = Mutex::new(Vec::new());

    /// Splits arguments that stay until the end of the tests.
    fn scan(arguments: &[OsString]) -> CommandLine<'static> {
        let arguments: &[OsString] = arguments.to_vec().leak();
        let list: &[&[u8]] = bytes(arguments).leak();
        KEPT.lock().unwrap().push((arguments, list));
        CommandLine::scan(list)
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    /// Compares globals, verb and rest, and returns everything scanned.
    fn check(line: &str, globals: &str, verb: &str, rest: &str) -> CommandLine<'static> {
        let scanned = scan(&words(line));
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
            [scanned.flags.root, scanned.flags.log, scanned.flags.log_format],
            [Some(&b"/r"[..]), Some(b"/l"), Some(b"json")]
        );
        let scanned = check(
            "--root=/r --log=/l --systemd-cgroup start id",
            "--root=/r --log=/l --systemd-cgroup",
            "start",
            "id",
        );
        assert_eq!((scanned.root(), scanned.flags.log), (Some(Path::new("/r")), Some(&b"/l"[..])));
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
            (scanned.flags.nri_runtime, scanned.flags.nri_config),
            (Some(&b"/x"[..]), Some(&b"/c"[..]))
        );
        assert!(!check("create --nri-runtime", "", "create", "--nri-runtime").flags.has_own);
        assert_eq!(check("--nri-config", "", "", "").flags.without_value, Some("nri-config"));
        assert!(check("--nri-version", "", "", "").flags.nri_version);
        assert!(check("--nri-help create x", "", "create", "x").flags.nri_help);
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
            let scanned = scan(&words(line));
            assert_eq!(scanned.event_verb().is_some(), event, "{line}");
        }
    }

    #[test]
    fn what_settings_may_change_is_not_passed_through() {
        for (line, expected) in [
            ("state x", true),
            ("", true),
            ("--help create x", true),
            ("exec x create", true),
            ("exec x sh --process p", true),
            ("exec --process p x", false),
            ("exec --cap c x sh", false),
            ("exec --env e --cwd / --no-new-privs x sh --cap c", true),
            ("--help exec --process p x", true),
            ("create x", false),
            ("--nri-help state x", false),
            ("--nri-version", false),
            ("--nri-config", false),
        ] {
            assert_eq!(scan(&words(line)).is_passed_through(), expected, "{line}");
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
            let scanned = scan(&arguments);
            proptest::prop_assert_eq!(scanned.forwarded(), arguments);
            let rest = bytes(&scanned.rest);
            if let Some(exec) = exec_args::read(&rest)
                && let Some(process) = exec.process
            {
                let replaced = with_value(&scanned.rest, process.at, b"/p");
                let replaced_bytes = bytes(&replaced);
                let again = exec_args::read(&replaced_bytes).unwrap();
                let value = again.process.map(|p| p.value);
                proptest::prop_assert_eq!((again.id, value), (exec.id, Some(&b"/p"[..])));
                let differing = replaced.iter().zip(&scanned.rest).filter(|(a, b)| a != b).count();
                proptest::prop_assert!(differing <= 1 && replaced.len() == scanned.rest.len());
            }
            for verb in Verb::ALL {
                let args = verb_args::read(verb, &rest);
                if let Some(resources) = args.resources {
                    let replaced = with_value(&scanned.rest, resources.at, b"-");
                    proptest::prop_assert_eq!(replaced.len(), scanned.rest.len());
                    let replaced = bytes(&replaced);
                    let again = verb_args::read(verb, &replaced);
                    proptest::prop_assert_eq!(again.resources.map(|r| r.value), Some(&b"-"[..]));
                    proptest::prop_assert_eq!(again.id, args.id);
                }
            }
        }
    }

    #[test]
    fn arguments_that_are_not_utf8_are_kept() {
        let odd = OsString::from_vec(b"--log=\xff\xfe".to_vec());
        let scanned = scan(&[odd.clone(), "create".into(), OsString::from_vec(b"\x80".to_vec())]);
        assert_eq!(scanned.globals, [odd]);
        assert_eq!(scanned.flags.log.unwrap(), b"\xff\xfe");
        assert_eq!(scanned.rest[0].as_bytes(), b"\x80");
    }
}

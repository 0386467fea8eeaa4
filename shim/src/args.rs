//! What was typed before the verb, and where the verb is.
//!
//! A pass-through scanner: it never changes an argument and never fails. What it does not
//! understand goes to the real runtime as it is, our own options (`--nri-runtime`, `--nri-config`,
//! `--nri-version`, before the verb only) apart.

use crate::{
    options::{GLOBAL, Item, Options},
    verb,
};
use nri_control::Verb;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

/// An argv, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Our own options.
    pub(crate) own: Own,
    /// What stands before the verb, ours taken out.
    pub(crate) globals: Vec<OsString>,
    /// The first word that is not an option or its value.
    pub(crate) verb: Option<OsString>,
    /// Everything behind it.
    pub(crate) rest: Vec<OsString>,
    /// `--log`
    pub(crate) log: Option<OsString>,
    /// `--log-format`
    pub(crate) log_format: Option<OsString>,
    /// `--root`
    pub(crate) root: Option<OsString>,
    /// Help or the version was asked for: the verb, if any, is not run.
    pub(crate) informs: bool,
}

/// Our own options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// `--nri-runtime`
    pub(crate) runtime: Option<OsString>,
    /// `--nri-config`
    pub(crate) config: Option<OsString>,
    /// `--nri-version`
    pub(crate) version: bool,
    /// One that ends the line where its value should be.
    pub(crate) without_value: Option<&'static str>,
}

impl Scanned {
    /// The verb, if it carries an event and will be run.
    pub(crate) fn event_verb(&self) -> Option<Verb> {
        self.verb.as_deref().filter(|_| !self.informs).and_then(verb::event_verb)
    }

    /// Whether it is `exec`, and will be run.
    pub(crate) fn is_exec(&self) -> bool {
        !self.informs && self.verb.as_deref().is_some_and(|v| v == "exec")
    }

    /// The arguments for the real runtime.
    pub(crate) fn forwarded(&self) -> Vec<OsString> {
        self.globals.iter().chain(&self.verb).chain(&self.rest).cloned().collect()
    }
}

/// Takes `arguments` (without `argv[0]`) apart.
pub(crate) fn scan(arguments: &[OsString]) -> Scanned {
    let mut scanned = Scanned::default();
    let mut options = Options::new(arguments, GLOBAL);
    let mut from = 0;
    while let Some(item) = options.next() {
        let mut keep = true;
        match item {
            Item::Word(place) => {
                scanned.verb = Some(arguments[place].clone());
                scanned.rest = arguments[place + 1..].to_vec();
                break;
            }
            Item::Known { name, value, .. } => keep = !scanned.global(name, value),
            Item::Unknown(place) => {
                // It may take a value. A word that is no verb cannot stand in a verb's place, so it
                // is one.
                if let Some(next) = arguments.get(place + 1)
                    && !arguments[place].as_bytes().contains(&b'=')
                    && !next.as_bytes().starts_with(b"-")
                    && !verb::is_known(next)
                {
                    options.next = place + 2;
                }
            }
            Item::End(_) => {}
        }
        if keep {
            scanned.globals.extend_from_slice(&arguments[from..options.next]);
        }
        from = options.next;
    }
    scanned
}

impl Scanned {
    /// Notes an option; true if it is ours.
    fn global(&mut self, name: &'static str, value: Option<&OsStr>) -> bool {
        let given = value.map(OsStr::to_owned);
        match name {
            "nri-version" => self.own.version = true,
            "nri-runtime" | "nri-config" => {
                if given.as_ref().is_none_or(|v| v.is_empty()) {
                    self.own.without_value = Some(name);
                }
                *(if name == "nri-runtime" {
                    &mut self.own.runtime
                } else {
                    &mut self.own.config
                }) = given;
            }
            "log" => self.log = given,
            "log-format" => self.log_format = given,
            "root" => self.root = given,
            "help" | "usage" | "version" => self.informs = true,
            _ => {}
        }
        name.starts_with("nri-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(|w| OsString::from(w.replace('_', ""))).collect()
    }

    /// `globals | verb | rest`, and what was noted.
    fn check(line: &str, globals: &str, verb: &str, rest: &str) -> Scanned {
        let scanned = scan(&words(line));
        assert_eq!(scanned.globals, words(globals), "globals of {line}");
        assert_eq!(scanned.verb.clone().unwrap_or_default(), verb, "verb of {line}");
        assert_eq!(scanned.rest, words(rest), "rest of {line}");
        scanned
    }

    #[test]
    fn verbs_are_found_behind_any_globals() {
        check("", "", "", "");
        check("state x", "", "state", "x");
        let s = check(
            "--root /r --log /l --log-format json create --bundle /b id",
            "--root /r --log /l --log-format json",
            "create",
            "--bundle /b id",
        );
        assert_eq!(
            (s.root.unwrap(), s.log.unwrap(), s.log_format.unwrap()),
            ("/r".into(), "/l".into(), "json".into())
        );
        let s = check(
            "--root=/r --log=/l --systemd-cgroup start id",
            "--root=/r --log=/l --systemd-cgroup",
            "start",
            "id",
        );
        assert_eq!((s.root.unwrap(), s.log.unwrap()), ("/r".into(), "/l".into()));
        check("-root /r -log=/l --debug=true run x", "-root /r -log=/l --debug=true", "run", "x");
        check("--rootless true create x", "--rootless true", "create", "x");
        check("--cgroup-manager disabled create x", "--cgroup-manager disabled", "create", "x");
        check("--cgroup-m disabled create x", "--cgroup-m disabled", "create", "x");
        check("-l /log -r /root -s create x", "-l /log -r /root -s", "create", "x");
        check("-- create x", "--", "create", "x");
    }

    #[test]
    fn values_called_like_verbs_do_not_fool() {
        check("--root create start create", "--root create", "start", "create");
        check("--log create state create", "--log create", "state", "create");
        check("kill create", "", "kill", "create");
        check("--rootless create kill x", "--rootless create", "kill", "x");
    }

    #[test]
    fn unknown_options_pass() {
        check("--platform systrap create x", "--platform systrap", "create", "x");
        check("--platform=systrap --net create x", "--platform=systrap --net", "create", "x");
        check("-z create x", "-z", "create", "x");
        check("--what", "--what", "", "");
        check("frobnicate --bundle x", "", "frobnicate", "--bundle x");
    }

    #[test]
    fn ours_are_taken_out_before_the_verb_only() {
        let s = check(
            "--nri-runtime /x --root /r --nri-config=/c create --nri-runtime /y z",
            "--root /r",
            "create",
            "--nri-runtime /y z",
        );
        assert_eq!((s.own.runtime.unwrap(), s.own.config.unwrap()), ("/x".into(), "/c".into()));
        assert_eq!(
            check("create --nri-runtime", "", "create", "--nri-runtime").own,
            Own::default()
        );
        assert_eq!(check("--nri-config", "", "", "").own.without_value, Some("nri-config"));
        assert!(check("--nri-version", "", "", "").own.version);
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
            assert_eq!(scan(&words(line)).event_verb().is_some(), event, "{line}");
        }
    }

    /// An argument as engines, people and their mistakes make it.
    fn argument() -> impl proptest::strategy::Strategy<Value = OsString> {
        use proptest::prelude::*;
        let words = "--|-|-b|--bundle|-p|--process|-tp|-pf|exec|--root|--log|--log-format|-d|-rx|--resources|create|run|update|state|id|--x|--x=y|--nri|--r=|";
        let known: Vec<&'static str> = words.split('|').collect();
        let any = proptest::collection::vec(any::<u8>().prop_filter("no NUL", |b| *b != 0), 0..6);
        prop_oneof![4 => proptest::sample::select(known).prop_map(OsString::from), 1 => any.prop_map(OsString::from_vec)]
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(arguments in proptest::collection::vec(argument(), 0..8)) {
            let scanned = scan(&arguments);
            proptest::prop_assert_eq!(scanned.forwarded(), arguments);
            if let Some(exec) = crate::exec_args::read(&scanned.rest) {
                let replaced = crate::options::with_value(&scanned.rest, exec.at, b"/p");
                let again = crate::exec_args::read(&replaced).map(|e| (e.id, e.process));
                proptest::prop_assert_eq!(again, Some((exec.id, "/p".into())));
                let differing = replaced.iter().zip(&scanned.rest).filter(|(a, b)| a != b).count();
                proptest::prop_assert!(differing <= 1 && replaced.len() == scanned.rest.len());
            }
            for word in ["create", "run", "restore", "start", "update", "delete"] {
                let verb = verb::event_verb(OsStr::new(word)).unwrap();
                let args = crate::verb_args::read(verb, &scanned.rest);
                if let Some(resources) = args.resources {
                    let replaced = crate::resources::from_stdin(&scanned.rest, &resources);
                    proptest::prop_assert_eq!(replaced.len(), scanned.rest.len());
                    let again = crate::verb_args::read(verb, &replaced);
                    proptest::prop_assert_eq!(again.resources.map(|r| r.value), Some("-".into()));
                    proptest::prop_assert_eq!(again.id, args.id);
                }
            }
        }
    }

    #[test]
    fn bytes_are_kept() {
        let odd = OsString::from_vec(b"--log=\xff\xfe".to_vec());
        let s = scan(&[odd.clone(), "create".into(), OsString::from_vec(b"\x80".to_vec())]);
        assert_eq!(s.globals, [odd]);
        assert_eq!(s.log.unwrap().as_bytes(), b"\xff\xfe");
        assert_eq!(s.rest[0].as_bytes(), b"\x80");
    }
}

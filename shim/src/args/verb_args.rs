//! Arguments after a verb that carries an event: id, bundle, and the few flags that `nrid` needs.

use super::replaced::{bytes, text};
use nri_control::Verb;
use nri_passthrough::args::{
    flags::{CREATE, DELETE, RESTORE, RUN, START, UPDATE, Verbs},
    options::{Item, Options, ValuePosition, is_on},
};
use std::ffi::OsString;

/// The arguments of a verb that the wrapper and `nrid` need.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VerbArgs {
    /// Container id.
    pub(crate) id: Option<OsString>,
    /// `--bundle`
    pub(crate) bundle: Option<OsString>,
    /// `--config`: another file than the bundle's `config.json`.
    pub(crate) config: Option<OsString>,
    /// `--pid-file`
    pub(crate) pid_file: Option<OsString>,
    /// `--resources`
    pub(crate) resources: Option<ResourcesFlag>,
    /// Whether `--detach` (`run`, `restore`) or `--force` (`delete`) is set.
    pub(crate) flag: bool,
    /// Whether a flag requests help, so that the verb is not run.
    pub(crate) is_help: bool,
}

/// The value of `--resources`, and the position at which the value can be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourcesFlag {
    pub(crate) value: OsString,
    pub(crate) at: ValuePosition,
}

/// Reads the arguments after `verb`.
///
/// Flags are read anywhere before `--`: runc and youki accept them after the id too.
pub(crate) fn read(verb: Verb, arguments: &[OsString]) -> VerbArgs {
    let mut args = VerbArgs::default();
    let (mut words, mut unknown) = (Vec::new(), false);
    for item in Options::new(&bytes(arguments), flags_of(verb)) {
        match item {
            Item::Word(index) => words.push(&arguments[index]),
            Item::Unknown(_) => unknown = true,
            Item::End => {}
            Item::Known { name, value, at } => args.take(name, value, at),
        }
    }
    // The first word may be the value of an unknown flag. Engines put the id last.
    args.id = if unknown { words.pop() } else { words.into_iter().next() }.cloned();
    args
}

fn flags_of(verb: Verb) -> Verbs {
    match verb {
        Verb::Create => CREATE,
        Verb::Run => RUN,
        Verb::Restore => RESTORE,
        Verb::Start => START,
        Verb::Update => UPDATE,
        Verb::Delete => DELETE,
    }
}

impl VerbArgs {
    fn take(&mut self, name: &str, value: Option<&[u8]>, at: (usize, usize)) {
        // runc treats an empty value as absent.
        let given = text(value.filter(|v| !v.is_empty()));
        match name {
            "bundle" => self.bundle = given,
            "config" => self.config = given,
            "pid-file" => self.pid_file = given,
            "resources" => self.resources = given.map(|value| ResourcesFlag { value, at }),
            "detach" | "force" => self.flag = is_on(value),
            "help" | "usage" => self.is_help = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: Verb, line: &str, expected: VerbArgs) {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        assert_eq!(read(verb, &words), expected, "{line}");
    }

    fn create(id: &str, bundle: &str) -> VerbArgs {
        VerbArgs { id: Some(id.into()), bundle: Some(bundle.into()), ..VerbArgs::default() }
    }

    #[test]
    fn an_option_is_read_in_every_form() {
        for line in [
            "--bundle /b id",
            "--bundle=/b id",
            "-bundle /b id",
            "-bundle=/b id",
            "-b /b id",
            "-b=/b id",
            "-b/b id",
            "--b /b id",
            "--bund /b id",
            "--bund=/b id",
            "id --bundle /b",
            "--bundle /b -- id",
            "--bundle /other --bundle /b id",
            "--no-pivot --console-socket create --bundle /b --no-new-keyring=true id",
            "--preserve-fds 3 --pidfd-socket=/s -b /b id",
            "-c /socket -b /b id",
            "--unknown-switch --bundle /b id",
            "--bundle /b --unknown value id",
            "--unknown=value --bundle=/b id",
            "--bundle /b id surplus",
        ] {
            check(Verb::Create, line, create("id", "/b"));
        }
        for line in ["-db /b id", "--detach -b /b id", "-d -b/b id", "-detach=1 --bundle=/b id"] {
            check(Verb::Run, line, VerbArgs { flag: true, ..create("id", "/b") });
        }
        check(Verb::Run, "--detach=false --bundle=/b id", create("id", "/b"));
    }

    #[test]
    fn values_that_look_like_flags_or_verbs_are_values() {
        check(Verb::Create, "--bundle create create", create("create", "create"));
        check(Verb::Create, "--bundle --force id", create("id", "--force"));
        check(Verb::Create, "--bundle /b -", create("-", "/b"));
        check(Verb::Create, "-b /b -- --bundle", create("--bundle", "/b"));
        check(Verb::Create, "--bundle", VerbArgs::default());
        check(Verb::Create, "--help", VerbArgs { is_help: true, ..VerbArgs::default() });
        check(Verb::Start, "", VerbArgs::default());
        check(
            Verb::Delete,
            "-f id",
            VerbArgs { id: Some("id".into()), flag: true, ..VerbArgs::default() },
        );
        check(
            Verb::Delete,
            "-r -f a.*",
            VerbArgs { id: Some("a.*".into()), flag: true, ..VerbArgs::default() },
        );
    }

    #[test]
    fn the_position_of_the_value_of_resources_is_found() {
        for (line, value, at) in [
            ("--resources - id", "-", (1, 0)),
            ("--resources=- id", "-", (0, 12)),
            ("-r /f id", "/f", (1, 0)),
            ("-r/f id", "/f", (0, 2)),
            ("--memory 1 --cpu-quota -1 --resources /f id", "/f", (5, 0)),
        ] {
            let resources = Some(ResourcesFlag { value: value.into(), at });
            check(
                Verb::Update,
                line,
                VerbArgs { id: Some("id".into()), resources, ..VerbArgs::default() },
            );
        }
    }
}

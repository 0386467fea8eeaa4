//! Arguments after a verb that carries an event: id, bundle, and the few flags that `nrid` needs.

use crate::{
    id,
    options::{Item, Options, ValuePosition, is_on},
    verbs::Verb,
};

/// The arguments of a verb that the wrapper and `nrid` need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerbArgs<'a> {
    /// Container id.
    pub id: Option<&'a [u8]>,
    /// `--bundle`
    pub bundle: Option<&'a [u8]>,
    /// `--config`: another file than the bundle's `config.json`.
    pub config: Option<&'a [u8]>,
    /// `--pid-file`
    pub pid_file: Option<&'a [u8]>,
    /// `--resources`
    pub resources: Option<ResourcesFlag<'a>>,
    /// Whether `--detach` (`run`, `restore`) or `--force` (`delete`) is set.
    pub flag: bool,
    /// Whether a flag requests help, so that the verb is not run.
    pub is_help: bool,
}

/// The value of `--resources`, and the position at which the value can be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcesFlag<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Its position.
    pub at: ValuePosition,
}

/// What a verb with an event is performed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A container with this id.
    Container(&'a str),
    /// Nothing that has an event: the real runtime prints its help, or reports what is wrong.
    None,
    /// An id that no runtime accepts, with the reason.
    Unacceptable(&'a [u8], &'static str),
}

/// Reads the arguments after `verb`.
///
/// Flags are read anywhere before `--`: runc and youki accept them after the id too.
pub fn read<'a>(verb: Verb, arguments: &'a [&'a [u8]]) -> VerbArgs<'a> {
    let mut args = VerbArgs::default();
    let (mut first, mut last, mut unknown) = (None, None, false);
    for item in Options::new(arguments, verb.flags()) {
        match item {
            Item::Word(index) => {
                last = Some(arguments[index]);
                first = first.or(last);
            }
            Item::Unknown(_) => unknown = true,
            Item::End => {}
            Item::Known { name, value, at } => args.take(name, value, at),
        }
    }
    // The first word may be the value of an unknown flag. Engines put the id last.
    args.id = if unknown { last } else { first };
    args
}

impl<'a> VerbArgs<'a> {
    /// Returns what `verb` is performed on.
    pub fn subject(&self, verb: Verb) -> Subject<'a> {
        // Without an id, the real runtime prints its usage.
        let Some(given) = self.id.filter(|_| !self.is_help) else { return Subject::None };
        match id::check(given) {
            Ok(id) => Subject::Container(id),
            // The id may be a pattern of crun's `delete --regex`, which the real runtime checks.
            Err(_) if verb == Verb::Delete => Subject::None,
            Err(why) => Subject::Unacceptable(given, why),
        }
    }

    fn take(&mut self, name: &str, value: Option<&'a [u8]>, at: ValuePosition) {
        // runc treats an empty value as absent.
        let given = value.filter(|value| !value.is_empty());
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

    fn check(verb: Verb, line: &str, expected: VerbArgs<'_>) {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        assert_eq!(read(verb, &words), expected, "{line}");
    }

    fn create<'a>(id: &'a str, bundle: &'a str) -> VerbArgs<'a> {
        let (id, bundle) = (Some(id.as_bytes()), Some(bundle.as_bytes()));
        VerbArgs { id, bundle, ..VerbArgs::default() }
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
            VerbArgs { id: Some(b"id"), flag: true, ..VerbArgs::default() },
        );
        check(
            Verb::Delete,
            "-r -f a.*",
            VerbArgs { id: Some(b"a.*"), flag: true, ..VerbArgs::default() },
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
            let resources = Some(ResourcesFlag { value: value.as_bytes(), at });
            check(
                Verb::Update,
                line,
                VerbArgs { id: Some(b"id"), resources, ..VerbArgs::default() },
            );
        }
    }
}

//! Break-glass: a variable or a file with which an operator disables NRI. The wrapper then only
//! calls the real runtime, and the hook does nothing.
//!
//! An engine creates files and directories as root where its users name them: `docker run -v` makes
//! a source that is missing, Podman writes logs and pid files, crun the output of hooks. So the
//! system's file counts only if it looks like one that an operator has made.

use crate::{
    environment::Environment,
    paths::{BYPASS_ENV, BYPASS_FILE},
    reach::{Answers, Reach},
    user_dirs::UserDirs,
};
use nri_trust::{Owners, Untrusted};
use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Content with which the file counts, whatever its mode is.
const WORD: &str = "bypass";

/// State of break-glass.
#[derive(Debug)]
pub enum BreakGlass {
    /// The variable is unset or says no, and no file exists.
    Off,
    /// NRI is disabled: by this file, or by the variable.
    On(Option<PathBuf>),
    /// The file exists, but others could have created it to bypass plugins. NRI stays enabled.
    Ignored(PathBuf, NotByOperator),
    /// The file system of the file does not answer. NRI stays enabled.
    Hangs(PathBuf),
}

/// Why a file that exists has no effect.
#[derive(Debug, thiserror::Error)]
pub enum NotByOperator {
    /// Other users could have created it.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// A container engine could have, for whoever may call it.
    #[error(
        "{} {what}, so that an engine may have made it for a user: remove it, and to disable NRI \
         write the word {WORD} into a new file", .path.display()
    )]
    ByEngine {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Checks the variable, then the files. `answers` keeps it from waiting for a file system that
/// hangs.
pub fn break_glass(environment: &Environment, answers: Answers) -> BreakGlass {
    if environment.var(BYPASS_ENV).is_some_and(is_yes) {
        return BreakGlass::On(None);
    }
    break_glass_file(environment, answers)
}

/// Whether a value of the variable disables NRI. An unknown value does: whoever sets the variable
/// in an emergency needs containers that start.
fn is_yes(value: &OsStr) -> bool {
    !["", "0", "false", "no", "off"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

/// Checks only the files, for programs that do not run in the environment of an engine: the
/// system's, then that of the user.
pub fn break_glass_file(environment: &Environment, answers: Answers) -> BreakGlass {
    let state_of = |file: &Path| state_of(file, answers);
    let of_system = match state_of(Path::new(BYPASS_FILE)) {
        BreakGlass::On(Some(file)) => match check_content(&file) {
            Ok(()) => BreakGlass::On(Some(file)),
            Err(why) => BreakGlass::Ignored(file, why),
        },
        other => other,
    };
    match of_system {
        BreakGlass::On(file) => BreakGlass::On(file),
        of_system => {
            let user = UserDirs::of_this_process(environment).map(|user| user.bypass_file());
            match user.as_deref().map_or(BreakGlass::Off, state_of) {
                BreakGlass::Off => of_system,
                of_user => of_user,
            }
        }
    }
}

fn state_of(file: &Path, answers: Answers) -> BreakGlass {
    match Reach::of(file) {
        Reach::Missing => return BreakGlass::Off,
        Reach::OtherMount if !answers(file) => return BreakGlass::Hangs(file.to_owned()),
        Reach::OtherMount | Reach::File => {}
    }
    if !file.exists() {
        return BreakGlass::Off;
    }
    match Owners::of_this_process().check(file) {
        Ok(()) => BreakGlass::On(Some(file.to_owned())),
        Err(why) => BreakGlass::Ignored(file.to_owned(), why.into()),
    }
}

/// Checks that a file of root was not made by an engine: those of Podman and crun are not empty, or
/// not readable by everybody, as the file of an operator is who calls `touch`.
fn check_content(file: &Path) -> Result<(), NotByOperator> {
    let by_engine = |what| Err(NotByOperator::ByEngine { path: file.to_owned(), what });
    let unreadable = |error| NotByOperator::Unreadable { path: file.to_owned(), error };
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return by_engine("is no regular file");
    }
    let mut content = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(16).read_to_end(&mut content).map_err(unreadable)?;
    match content.trim_ascii() {
        b"" if metadata.permissions().mode() & 0o004 != 0 => Ok(()),
        b"" => by_engine("is empty and not readable by everybody"),
        content if content == WORD.as_bytes() => Ok(()),
        _ => by_engine("has content"),
    }
}

/// Hint for error messages: how to run containers without NRI.
#[derive(Debug, Clone, Copy)]
pub struct BreakGlassHint;

impl fmt::Display for BreakGlassHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = UserDirs::of_this_process(&Environment::of_this_process());
        let file = user.map_or_else(|| BYPASS_FILE.into(), |user| user.bypass_file());
        let file = file.display();
        write!(
            f,
            "to run containers without NRI write the word {WORD} into {file}, or set \
             {BYPASS_ENV}=1 in the environment of the engine"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variable has no effect in the environment of a client, or of a container.
    #[test]
    fn the_hint_says_in_whose_environment_the_variable_belongs() {
        let hint = BreakGlassHint.to_string();
        assert!(hint.contains(&format!("set {BYPASS_ENV}=1 in the environment of the engine")));
        assert!(hint.contains("write the word bypass into /"), "{hint}");
    }

    /// `docker run -v`, Podman's `--pidfile`, `--log-opt path=`, crun's `run.oci.hooks.stdout`.
    #[test]
    fn what_an_engine_creates_for_its_users_disables_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            check_content(&path).map_err(|error| error.to_string())
        };
        assert_eq!(file("touch", "", 0o644), Ok(()));
        assert_eq!(file("word", "bypass\n", 0o600), Ok(()));
        let check = |found: Result<(), String>, what: &str| {
            let error = found.unwrap_err();
            assert!(error.contains(what) && error.contains("the word bypass"), "{error}");
        };
        check(file("pid", "4711", 0o644), "has content");
        check(file("log", "", 0o640), "not readable by everybody");
        check(file("line", "2026-01-01T00:00:00Z stdout F bypass", 0o640), "has content");
        check(file("hook", "", 0o700), "not readable by everybody");
        let directory = check_content(dir.path()).map_err(|error| error.to_string());
        check(directory, "is no regular file");
    }

    #[test]
    fn a_value_that_says_no_does_not_disable_nri() {
        for value in ["", "0", "false", "False", "no", "NO", "off"] {
            assert!(!is_yes(OsStr::new(value)), "{value:?}");
        }
        for value in ["1", "true", "yes", "on", "2", "00", "nope", " 0"] {
            assert!(is_yes(OsStr::new(value)), "{value:?}");
        }
    }
}

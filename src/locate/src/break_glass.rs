//! Break-glass: a variable or a file with which an operator disables NRI. The wrapper then only
//! calls the real runtime, and the hook does nothing.

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
    path::{Path, PathBuf},
};

/// State of break-glass.
#[derive(Debug)]
pub enum BreakGlass {
    /// The variable is unset or says no, and no file exists.
    Off,
    /// NRI is disabled: by this file, or by the variable.
    On(Option<PathBuf>),
    /// The file exists, but other users could have created it to bypass plugins. NRI stays enabled.
    Ignored(PathBuf, Untrusted),
    /// The file system of the file does not answer. NRI stays enabled.
    Hangs(PathBuf),
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
    match state_of(Path::new(BYPASS_FILE)) {
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
        Err(why) => BreakGlass::Ignored(file.to_owned(), why),
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
            "to run containers without NRI create {file}, or set {BYPASS_ENV}=1 in the \
             environment of the engine"
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
        assert!(hint.contains("create /"), "{hint}");
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

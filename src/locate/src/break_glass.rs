//! Break-glass: a variable or a file with which an operator disables NRI. The wrapper then only
//! calls the real runtime, and the hook does nothing.

use crate::{
    environment::Environment,
    paths::{BYPASS_ENV, BYPASS_FILE},
};
use nri_trust::{Owners, Untrusted};
use std::{fmt, path::Path};

/// State of break-glass.
#[derive(Debug)]
pub enum BreakGlass {
    /// The variable is unset, empty or 0, and the file does not exist.
    Off,
    /// NRI is disabled.
    On,
    /// The file exists, but users other than root could have created it to bypass plugins. NRI
    /// stays enabled.
    Ignored(Untrusted),
}

/// Checks the variable, then the file.
pub fn break_glass(environment: &Environment) -> BreakGlass {
    if environment.var(BYPASS_ENV).is_some_and(|value| value != "0") {
        return BreakGlass::On;
    }
    break_glass_file()
}

/// Checks only the file, for programs that do not run in the environment of an engine.
pub fn break_glass_file() -> BreakGlass {
    let file = Path::new(BYPASS_FILE);
    if !file.exists() {
        return BreakGlass::Off;
    }
    match Owners::of_this_process().check(file) {
        Ok(()) => BreakGlass::On,
        Err(why) => BreakGlass::Ignored(why),
    }
}

/// Hint for error messages: how to run containers without NRI.
#[derive(Debug, Clone, Copy)]
pub struct BreakGlassHint;

impl fmt::Display for BreakGlassHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to run containers without NRI set {BYPASS_ENV}=1 or create {BYPASS_FILE}")
    }
}

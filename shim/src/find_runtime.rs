//! Finds the real runtime. Never ourselves, under whatever name: neither by symbolic nor by hard
//! link.

use crate::{
    Error,
    call::{Call, working_dir},
    error::Unusable,
    search::{self, Ourselves},
};
use nri_config::{DEFAULT_RUNTIMES, RUNTIME_ENV, RuntimeSettings};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// A link `nri-crun` to this program means crun.
const NAME_PREFIX: &str = "nri-";
const OWN_NAME: &str = "container-runtime";

/// What names the runtime.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// This one, and no other; and who says so.
    Named(PathBuf, String),
    /// The first of these that there is.
    FirstOf(Vec<PathBuf>),
}

/// Absolute path of the real runtime.
///
/// In order: `option` (`--nri-runtime`), the variable, the name that we were called by,
/// `[runtime].path`, the candidates.
pub(crate) fn find(
    option: Option<&OsStr>,
    call: &Call,
    settings: &RuntimeSettings,
) -> Result<PathBuf, Error> {
    let ourselves = Ourselves::identify();
    match choose(option, call.var(RUNTIME_ENV), call.base_name(), settings) {
        Choice::Named(path, from) => named(&path, from, call, ourselves),
        Choice::FirstOf(candidates) => {
            let dirs = search::dirs(call);
            let mut found = candidates.iter().flat_map(|c| places(c, &dirs));
            found.find(|path| ourselves.check(path).is_ok()).ok_or_else(|| Error::NoRuntime {
                names: candidates.iter().map(|c| c.display().to_string()).collect(),
                dirs,
            })
        }
    }
}

fn choose(
    option: Option<&OsStr>,
    variable: Option<&OsStr>,
    called: Option<&str>,
    settings: &RuntimeSettings,
) -> Choice {
    if let Some(path) = option {
        return Choice::Named(path.into(), "--nri-runtime".to_owned());
    }
    if let Some(path) = variable {
        return Choice::Named(path.into(), RUNTIME_ENV.to_owned());
    }
    if let Some((name, runtime)) = called.and_then(|name| settings.names.get_key_value(name)) {
        return Choice::Named(runtime.path.clone(), format!("[runtime.names.{name}]"));
    }
    if let Some(name) =
        called.and_then(|c| c.strip_prefix(NAME_PREFIX)).filter(|n| *n != OWN_NAME && !n.is_empty())
    {
        return Choice::Named(name.into(), format!("called as {NAME_PREFIX}{name}"));
    }
    if let Some(path) = &settings.path {
        return Choice::Named(path.clone(), "[runtime].path".to_owned());
    }
    let mut candidates = match settings.candidates.as_slice() {
        [] => DEFAULT_RUNTIMES.map(PathBuf::from).to_vec(),
        given => given.to_vec(),
    };
    // Installed under the name of a runtime, we stand for that one.
    if let Some(at) = called.and_then(|name| candidates.iter().position(|c| c == Path::new(name))) {
        candidates[..=at].rotate_right(1);
    }
    Choice::FirstOf(candidates)
}

fn named(path: &Path, from: String, call: &Call, ourselves: Ourselves) -> Result<PathBuf, Error> {
    let mut why = Unusable::NotFound;
    for place in places(path, &search::dirs(call)) {
        match ourselves.check(&place) {
            Ok(()) => return Ok(place),
            // What we found first says most.
            Err(e) if why == Unusable::NotFound => why = e,
            Err(_) => {}
        }
    }
    Err(Error::Runtime(path.to_owned(), from, why))
}

/// Where a runtime of this name may be: a bare name in any of `dirs`, anything else where it says.
fn places(name: &Path, dirs: &[PathBuf]) -> Vec<PathBuf> {
    if name.components().count() == 1 && !name.has_root() {
        dirs.iter().map(|dir| dir.join(name)).collect()
    } else {
        vec![working_dir().join(name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let mut settings = RuntimeSettings::default();
        let runtime = |path: &str| nri_config::NamedRuntime { path: path.into() };
        settings.names.insert("nri-special".to_owned(), runtime("/special"));
        let with_path = RuntimeSettings { path: Some("/configured".into()), ..settings.clone() };
        let candidates = RuntimeSettings {
            candidates: vec!["a".into(), "crun".into(), "b".into()],
            ..settings.clone()
        };
        let named = |path: &str, from: &str| Choice::Named(path.into(), from.to_owned());
        let first = |names: &[&str]| Choice::FirstOf(names.iter().map(PathBuf::from).collect());
        let cases = [
            (Some("/o"), Some("/v"), "nri-crun", &with_path, named("/o", "--nri-runtime")),
            (None, Some("/v"), "nri-crun", &with_path, named("/v", RUNTIME_ENV)),
            (
                None,
                None,
                "nri-special",
                &with_path,
                named("/special", "[runtime.names.nri-special]"),
            ),
            (None, None, "nri-crun", &with_path, named("crun", "called as nri-crun")),
            (
                None,
                None,
                "nri-container-runtime",
                &with_path,
                named("/configured", "[runtime].path"),
            ),
            (None, None, "runc", &with_path, named("/configured", "[runtime].path")),
            (None, None, "nri-container-runtime", &settings, first(&["runc", "crun", "youki"])),
            (None, None, "youki", &settings, first(&["youki", "runc", "crun"])),
            (None, None, "", &settings, first(&["runc", "crun", "youki"])),
            (None, None, "crun", &candidates, first(&["crun", "a", "b"])),
        ];
        for (option, variable, called, settings, expected) in cases {
            let got =
                choose(option.map(OsStr::new), variable.map(OsStr::new), Some(called), settings);
            assert_eq!(got, expected, "{option:?} {variable:?} {called:?}");
        }
    }

    #[test]
    fn bare_names_are_looked_up() {
        let dirs = [PathBuf::from("/a"), "/b".into()];
        assert_eq!(places(Path::new("runc"), &dirs), [Path::new("/a/runc"), Path::new("/b/runc")]);
        assert_eq!(places(Path::new("/x/runc"), &dirs), [Path::new("/x/runc")]);
        assert_eq!(places(Path::new("./runc"), &dirs), [working_dir().join("./runc")]);
    }
}

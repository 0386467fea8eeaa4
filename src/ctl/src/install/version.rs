//! An engine's version, from the command line or from its program.

use super::{
    engines::kind::{EngineVersion, TargetEngine},
    install_root::InstallRoot,
};
use nri_locate::{Environment, search_dirs, standard_dirs};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Parses a version, such as `v2.1.9` or `1.6.20~ds1`.
pub(super) fn parse(text: &str) -> Result<EngineVersion, &'static str> {
    let mut numbers = text.trim_start_matches('v').split(['.', '~', '-', '+']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err("not a version, such as 1.7 or 2.1.9"),
    }
}

/// Runs the engine's program for its version. Programs of an image are not run. A user's rootless
/// engine is often below the home directory, so it is searched in PATH.
pub(crate) fn installed(root: &InstallRoot, engine: TargetEngine) -> Option<EngineVersion> {
    if !root.is_machine() {
        return None;
    }
    let dirs = match root.user() {
        Some(_) => search_dirs(&Environment::of_this_process()).collect(),
        None => standard_dirs().collect(),
    };
    let path = program(root, engine, dirs)?;
    let output = Command::new(path).arg("--version").output().ok()?;
    find(&String::from_utf8_lossy(&output.stdout))
}

/// Returns why the engine is not on this machine, if it is not: neither its program, nor its
/// directory, nor a process. An image, and a user's home, may get an engine later.
pub(crate) fn absence(root: &InstallRoot, engine: TargetEngine) -> Option<String> {
    let (name, dir) = (engine.program(), engine.facts().config_dir?);
    if !root.is_machine() || root.user().is_some() || Path::new(dir).exists() {
        return None;
    }
    let dirs = search_dirs(&Environment::of_this_process()).collect();
    let is_present = program(root, engine, dirs).is_some() || nri_host::is_running(name);
    (!is_present).then(|| format!("there is neither a program {name}, nor {dir}"))
}

/// Returns the engine's program.
fn program(root: &InstallRoot, engine: TargetEngine, dirs: Vec<PathBuf>) -> Option<PathBuf> {
    let name = engine.program();
    dirs.iter().map(|dir| dir.join(name)).find(|path| root.is_program(path))
}

/// Returns the first word that is a version with a dot: `containerd
/// github.com/containerd/containerd v1.7.24 …`.
fn find(output: &str) -> Option<EngineVersion> {
    output.split([' ', '\n', ',']).find_map(|word| parse(word).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_output_of_each_engine_is_parsed() {
        let check = |output: &str, expected: Option<(u32, u32)>| {
            assert_eq!(find(output), expected, "{output}");
        };
        check(
            "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u2",
            Some((1, 6)),
        );
        check("containerd github.com/containerd/containerd/v2 v2.1.9 5fd4c4d1", Some((2, 1)));
        check("Docker version 28.5.2, build ecc6942", Some((28, 5)));
        check("podman version 5.4.2", Some((5, 4)));
        check("crio version 1.30.0\nGitCommit: x", Some((1, 30)));
        check("no version", None);
    }
}

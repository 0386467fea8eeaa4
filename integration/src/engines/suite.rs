//! Finds the Debian suites whose engines are installed.

use crate::{find_program, is_root, limitation, script, skip};
use std::{
    path::{Path, PathBuf},
    sync::Once,
};

/// Suites that `engines/setup.sh` installs.
const ALL: [&str; 3] = ["bookworm", "trixie", "sid"];

/// Environment variable that selects suites, separated by spaces or commas.
const CHOICE: &str = "NRI_ENGINE_SUITES";

/// The engines and runtimes of one Debian suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// Name of the suite, such as `trixie`.
    pub name: String,
}

impl Suite {
    /// Path of a program of this suite: `containerd`, `podman`, `runc` …
    pub fn program(&self, name: &str) -> PathBuf {
        directory().join("bin").join(&self.name).join(name)
    }

    /// Path of a file of the suite's packages.
    pub fn file(&self, path: &str) -> PathBuf {
        directory().join("root").join(&self.name).join(path)
    }

    /// Major and minor version of a program: `(1, 7)` if `--version` prints `containerd
    /// github.com/containerd/containerd 1.7.24~ds1 …`.
    ///
    /// # Panics
    /// `--version` fails or prints no version.
    pub fn version(&self, program: &str) -> (u32, u32) {
        let output = std::process::Command::new(self.program(program)).arg("--version").output();
        let text =
            String::from_utf8_lossy(&output.unwrap_or_else(|e| panic!("{program}: {e}")).stdout)
                .into_owned();
        let numbers = |word: &str| {
            let mut parts =
                word.trim_start_matches('v').split(['.', ',', '~', '+']).map(|n| n.parse().ok());
            Some((parts.next()??, parts.next()??))
        };
        text.split_whitespace().find_map(numbers).unwrap_or_else(|| panic!("no version in: {text}"))
    }
}

/// Directory in which engines are installed.
pub(super) fn directory() -> PathBuf {
    std::env::var_os("NRI_ENGINES")
        .map_or_else(|| PathBuf::from("/var/tmp/nri-engines"), PathBuf::from)
}

/// Path of the client of the container runtime interface, if it was built.
pub(super) fn cri_client() -> Option<PathBuf> {
    Some(directory().join("bin/cri")).filter(|p| p.is_file())
}

/// Path of a script of `engines/`.
pub(super) fn engine_script(name: &str) -> PathBuf {
    script(&Path::new("engines").join(name).to_string_lossy())
}

/// Returns the suites to test: those in `NRI_ENGINE_SUITES`, or if it is empty all that are
/// installed.
pub fn suites() -> Vec<Suite> {
    let named = std::env::var(CHOICE).unwrap_or_default();
    let named: Vec<&str> = named.split([' ', ',']).filter(|s| !s.is_empty()).collect();
    let all = if named.is_empty() { ALL.to_vec() } else { named.clone() };
    let all = all.into_iter().map(|name| Suite { name: name.to_owned() });
    all.filter(|suite| !named.is_empty() || suite.program("runc").exists()).collect()
}

/// Whether the tests with engines are disabled by the value `none` of `NRI_ENGINE_SUITES`.
pub(super) fn are_disabled() -> bool {
    std::env::var_os(CHOICE).is_some_and(|v| v == "none")
}

/// Runs `test` with each suite. Records a skip if no suite is installed; suites in
/// `NRI_ENGINE_SUITES` must be installed. The value `none` of that variable disables these tests.
///
/// # Panics
/// A suite in `NRI_ENGINE_SUITES` is not installed.
pub fn for_each_suite(name: &str, program: &str, test: impl Fn(&Suite)) {
    if are_disabled() {
        static REPORTED: Once = Once::new();
        return REPORTED.call_once(|| {
            limitation("all of tests/engines", "disabled by NRI_ENGINE_SUITES=none")
        });
    }
    if !is_root() {
        return skip(name, "not root");
    }
    if find_program("busybox").is_none() {
        return skip(name, "no busybox; integration/setup.sh installs it");
    }
    let suites = suites();
    if suites.is_empty() {
        return skip(name, "no engines; integration/engines/setup.sh installs them");
    }
    for suite in suites {
        let file = suite.program(program);
        assert!(
            file.exists(),
            "{} is missing; integration/engines/setup.sh installs it",
            file.display()
        );
        eprintln!("-- {name}: {}", suite.name);
        test(&suite);
    }
}

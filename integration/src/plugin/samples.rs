//! Upstream's sample plugins, and the files of the host that some of them read.

use crate::{limitation, write_program};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Directory of upstream's sample plugins: `NRI_TEST_SAMPLES`, which `plugins/samples.sh` fills
/// from a checkout of containerd/nri. Their modules cannot be built without one: they have no
/// versions of their own. Records a skip if the variable is not set.
pub fn samples(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("NRI_TEST_SAMPLES").map(PathBuf::from);
    if dir.is_none() {
        limitation(test, "NRI_TEST_SAMPLES is not set, see plugins/samples.sh");
    }
    dir
}

/// A file of the host that exists during a test.
#[derive(Debug)]
pub struct HostFile(PathBuf);

impl HostFile {
    /// Writes a file, with the directories above it.
    ///
    /// # Panics
    /// The file exists already, or cannot be written.
    pub fn new(path: &str, text: &str) -> Self {
        let new = Self::prepare(path);
        fs::write(path, text).expect("the test is root");
        new
    }

    /// Writes a program like [`Self::new`].
    ///
    /// # Panics
    /// The file exists already, or cannot be written.
    pub fn program(path: &str, text: &str) -> Self {
        let new = Self::prepare(path);
        write_program(Path::new(path), text);
        new
    }

    fn prepare(path: &str) -> Self {
        let path = PathBuf::from(path);
        assert!(!path.exists(), "{} exists already", path.display());
        fs::create_dir_all(path.parent().expect("an absolute path")).expect("the test is root");
        Self(path)
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

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

/// A file of the host that exists during a test, as do the directories above it.
#[derive(Debug)]
pub struct HostFile {
    path: PathBuf,
    /// Directories that did not exist before, the innermost first.
    dirs: Vec<PathBuf>,
}

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
        let new = |dir: &&Path| !dir.exists();
        let dirs: Vec<_> = path.ancestors().skip(1).take_while(new).map(Path::to_owned).collect();
        fs::create_dir_all(path.parent().expect("an absolute path")).expect("the test is root");
        Self { path, dirs }
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_host_leaves_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (path, deep) = (dir.path().join("a"), dir.path().join("b/c/d"));
        {
            let _files = [&path, &deep].map(|path| HostFile::new(path.to_str().unwrap(), "x"));
            assert_eq!(fs::read_to_string(&deep).unwrap(), "x");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

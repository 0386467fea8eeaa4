//! Versions of low-level runtimes. Each runtime binary is run once with `--version`, and again only
//! after its file was replaced.

use crate::host::runtime::LowLevelRuntime;
use nri_spec::capability::RuntimeVersion;
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Cache of versions by runtime binary.
#[derive(Debug, Default)]
pub struct RuntimeVersions(Mutex<HashMap<File, RuntimeVersion>>);

/// Identity of the file at a path; it changes when the file is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct File {
    path: PathBuf,
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl RuntimeVersions {
    /// Returns kind and version of a runtime; both are `None` if its output has none.
    pub async fn of(&self, runtime: &LowLevelRuntime) -> RuntimeVersion {
        let unknown = RuntimeVersion { kind: None, version: None };
        let Some(file) = File::of(runtime.path()) else { return unknown };
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&file) {
            return known.clone();
        }
        let found = match runtime.version().await {
            Ok(output) => RuntimeVersion::parse(&String::from_utf8_lossy(&output)),
            Err(error) => {
                // Do not cache the failure: the next call may succeed.
                tracing::warn!(%error, "cannot run the runtime with --version");
                return unknown;
            }
        };
        tracing::info!(path = %file.path.display(), runtime = %found, "runtime");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file, found.clone());
        found
    }
}

impl File {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        let changed = (meta.mtime(), meta.mtime_nsec());
        Some(Self { path: path.to_owned(), device: meta.dev(), inode: meta.ino(), changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::OsText;

    #[tokio::test]
    async fn a_runtime_is_run_once_and_a_new_file_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, asked) = (dir.path().join("runc"), dir.path().join("asked"));
        let install = |version: &str| {
            let script = format!(
                "#!/bin/sh\n[ \"$*\" = --version ] || exit 1\necho x >>{}\n\
                 echo runc version {version}\n",
                asked.display()
            );
            // Let another process write the file: a file that is open for writing, even in a child
            // that this process has just forked, cannot be executed (ETXTBSY).
            let write =
                "printf %s \"$1\" >\"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
            let path = path.as_os_str();
            let done = std::process::Command::new("sh")
                .args(["-c", write, "sh", &script])
                .arg(path)
                .status();
            assert!(done.unwrap().success());
        };
        let globals = [OsText::from("--root"), OsText::from("/r")];
        let text = OsText::from(path.to_str().unwrap());
        let runtime = LowLevelRuntime::new(
            &text,
            &globals,
            None,
            &["PATH=/bin:/usr/bin".into()],
            &"/".into(),
        );
        let versions = RuntimeVersions::default();
        assert_eq!(versions.of(&runtime).await.to_string(), "the runtime");
        for version in ["1.1.5", "1.3.6"] {
            install(version);
            for _ in 0..2 {
                assert_eq!(versions.of(&runtime).await.to_string(), format!("runc {version}"));
            }
        }
        assert_eq!(fs::read_to_string(&asked).unwrap(), "x\nx\n");
    }
}

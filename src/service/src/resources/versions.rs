//! Versions of low-level runtimes. Each runtime binary is run once with `--version`, and again only
//! after its file was replaced.

use crate::host::{
    file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    runtime::LowLevelRuntime,
};
use nri_spec::capability::RuntimeVersion;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};
use std::{collections::HashMap, io, path::PathBuf};

/// Cache of versions by runtime binary.
#[derive(Debug, Default)]
pub struct RuntimeVersions(Mutex<HashMap<FileIdentity, RuntimeVersion>>);

/// Identity of the file at a path, which differs after the file is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileIdentity {
    path: PathBuf,
    device: (u32, u32),
    inode: u64,
    changed: (i64, u32),
}

impl RuntimeVersions {
    /// Returns kind and version of a runtime, each `None` if unknown.
    pub async fn of(&self, runtime: &LowLevelRuntime) -> RuntimeVersion {
        let unknown = RuntimeVersion { kind: None, version: None };
        let Some(file) = FileIdentity::of(runtime).await else { return unknown };
        if let Some(known) = self.0.lock().get(&file) {
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
        tracing::info!(path = %file.path.display(), runtime = %found, "runtime version detected");
        self.0.lock().insert(file, found.clone());
        found
    }
}

impl FileIdentity {
    async fn of(runtime: &LowLevelRuntime) -> Option<Self> {
        let file = match runtime.cached_file() {
            Some(file) => file,
            None => {
                let program = runtime.clone();
                let file_system = FileSystem::directory(runtime.path().parent()?);
                let read = move || {
                    let file = program.open(program.path(), OFlags::PATH)?;
                    statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
                        .map_err(io::Error::from)
                };
                file_access::run(file_system, LOOKUP_TIMEOUT, read).await.ok()?.ok()?
            }
        };
        Some(Self {
            path: runtime.path().to_owned(),
            device: (file.stx_dev_major, file.stx_dev_minor),
            inode: file.stx_ino,
            changed: (file.stx_mtime.tv_sec, file.stx_mtime.tv_nsec),
        })
    }
}

/// Whether a runtime with this base name is crun or youki. Others are most likely runc, or derived
/// from it.
pub fn is_crun_or_youki(name: &str) -> bool {
    ["crun", "youki"].iter().any(|known| name.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;
    use std::fs;

    #[tokio::test]
    async fn each_runtime_file_is_run_once_with_version() {
        let dir = tempfile::tempdir().unwrap();
        let (path, calls) = (dir.path().join("runc"), dir.path().join("calls"));
        let install = |version: &str| {
            let script = format!(
                "#!/bin/sh\n[ \"$*\" = --version ] || exit 1\necho x >>{}\n\
                 echo runc version {version}\n",
                calls.display()
            );
            // Let another process write the file: a file that is open for writing, even in a child
            // that this process has just forked, cannot be executed (ETXTBSY).
            let write =
                "printf %s \"$1\" >\"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
            let path = path.as_os_str();
            let status = std::process::Command::new("sh")
                .args(["-c", write, "sh", &script])
                .arg(path)
                .status();
            assert!(status.unwrap().success());
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
        assert_eq!(fs::read_to_string(&calls).unwrap(), "x\nx\n");
    }
}

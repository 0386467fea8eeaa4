//! Current names of Docker's containers. Docker renames a container without a call of the runtime,
//! so only its file `config.v2.json` has the new name. Files are read when someone asks `nrid` for
//! containers, never while one is created.

use crate::host::file_access::{self, FileSystem};
use nri_engine::docker;
use nri_trust::read_regular;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time limit for all files of one file system; a file takes some microseconds if it has not
/// changed. The rest is read the next time.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Device, inode and time of the last change: dockerd replaces the file.
type FileVersion = (u64, u64, i64, i64);

/// The files of containers, each with the version that was read last.
#[derive(Debug, Default)]
pub struct DockerNames(Mutex<HashMap<String, NameFile>>);

#[derive(Debug, Clone)]
struct NameFile {
    /// Paths at which the file may be.
    paths: Vec<PathBuf>,
    version: Option<FileVersion>,
}

/// A container of Docker.
pub struct DockerContainer {
    /// Text that no other container has.
    pub key: String,
    /// Id at Docker.
    pub id: String,
}

/// What was read of a container.
struct ReadName {
    key: String,
    version: FileVersion,
    /// `None` if the file cannot be used.
    name: Option<String>,
}

impl DockerNames {
    /// Returns the keys and names of the containers whose file has changed since the last call.
    /// `sources` returns the sources of a container's mounts. All containers must be given:
    /// others are forgotten.
    pub async fn changed(
        &self,
        containers: Vec<DockerContainer>,
        sources: impl Fn(&DockerContainer) -> Vec<String>,
    ) -> Vec<(String, String)> {
        let mut by_dir = HashMap::<PathBuf, Vec<(DockerContainer, NameFile)>>::new();
        {
            let mut known = self.lock();
            let mut next = HashMap::with_capacity(containers.len());
            for container in containers {
                let file = known.remove(&container.key).unwrap_or_else(|| {
                    let sources = sources(&container);
                    let dirs = docker::dirs(&container.id, sources.iter().map(String::as_str));
                    let paths = dirs.into_iter().map(|dir| dir.join("config.v2.json"));
                    NameFile { paths: paths.collect(), version: None }
                });
                next.insert(container.key.clone(), file.clone());
                // `…/containers/ID/config.v2.json`
                if let Some(dir) = file.paths.first().and_then(|path| path.ancestors().nth(2)) {
                    by_dir.entry(dir.to_owned()).or_default().push((container, file));
                }
            }
            *known = next;
        }
        let mut changed = Vec::new();
        for (dir, files) in by_dir {
            let deadline = Instant::now() + TIMEOUT;
            let read = move || {
                let in_time = files.iter().take_while(|_| Instant::now() < deadline);
                in_time.filter_map(|(container, file)| read(container, file)).collect::<Vec<_>>()
            };
            // A file system that hangs is reported by others.
            let read = file_access::run(FileSystem::directory(&dir), 2 * TIMEOUT, read).await;
            let mut known = self.lock();
            for ReadName { key, version, name } in read.unwrap_or_default() {
                if let Some(file) = known.get_mut(&key) {
                    file.version = Some(version);
                }
                changed.extend(name.map(|name| (key, name)));
            }
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, NameFile>> {
        self.0.lock()
    }
}

/// Reads the file of a container, if it has changed.
fn read(container: &DockerContainer, file: &NameFile) -> Option<ReadName> {
    let found = |path: &PathBuf| Some((path.clone(), version(path)?));
    let (path, version) = file.paths.iter().find_map(found)?;
    if file.version == Some(version) {
        return None;
    }
    let content = read_regular(&path, MAX_FILE).ok()?;
    let name = docker::name(&container.id, &content);
    if let Err(error) = &name {
        let file = path.display();
        tracing::debug!(container = container.id, %error, %file, "container name not read");
    }
    let name = name.ok().filter(|name| !name.is_empty());
    Some(ReadName { key: container.key.clone(), version, name })
}

fn version(path: &Path) -> Option<FileVersion> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

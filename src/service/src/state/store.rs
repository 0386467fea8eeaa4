//! Records on disk: one JSON file per container or pod, replaced atomically.
//!
//! On most hosts, the state directory is on a tmpfs: records, like containers, do not outlive a
//! boot.

use crate::bundle::own;
use crate::state::{
    key::ContainerKey,
    pod::PodRecord,
    record::Record,
    spares::{Spares, WriteTarget},
};
use nri_host::sha256 as digest;
use nri_trust::read_regular;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum number of threads that read records.
const MAX_READERS: usize = 4;

/// Minimum number of records per thread: fewer are read faster than a thread is started.
const MIN_SHARE: usize = 200;

/// Time for which a check is valid: many statuses at once must not write many files.
const CHECK_VALIDITY: Duration = Duration::from_millis(100);

/// Directory of the records of pods.
const PODS_DIR: &str = "pods";

/// Directory of spare files.
const SPARE_DIR: &str = "spare";

/// The directories of the records.
#[derive(Debug, Clone)]
pub struct Store {
    containers: PathBuf,
    pods: PathBuf,
    spares: Arc<Spares>,
    /// Whether changes are kept in memory only.
    is_read_only: bool,
    last_check: Arc<Mutex<Option<WriteCheck>>>,
}

/// Result of a check whether records can be written.
#[derive(Debug)]
struct WriteCheck {
    at: Instant,
    error: Option<String>,
}

/// Failure to read or write a record.
#[derive(Debug, thiserror::Error)]
#[error("record {path}: {source}")]
pub struct StoreError {
    /// File of the record.
    pub path: PathBuf,
    /// Cause of the failure.
    #[source]
    pub source: io::Error,
}

impl Store {
    /// Opens the directories, and creates those that are missing.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        Self::create_directories(state_dir)?;
        // Temporary files in the directories of records are removed when the records are read. The
        // directory of exec markers is not listed elsewhere.
        remove_temporary_files(&state_dir.join(nri_files::EXEC_DIR));
        let spares = Arc::new(Spares::new(state_dir.join(SPARE_DIR)));
        let (containers, pods) = (state_dir.join(nri_files::RECORDS_DIR), state_dir.join(PODS_DIR));
        Ok(Self { containers, pods, spares, is_read_only: false, last_check: Arc::default() })
    }

    /// Returns the directories of the `nrid` that uses them, for a process beside it: nothing is
    /// created, changed or removed.
    pub fn read_only(state_dir: &Path) -> Self {
        Self {
            containers: state_dir.join(nri_files::RECORDS_DIR),
            pods: state_dir.join(PODS_DIR),
            spares: Arc::new(Spares::unused(state_dir.join(SPARE_DIR))),
            is_read_only: true,
            last_check: Arc::default(),
        }
    }

    /// Creates the directories that are missing, without changing files in existing ones.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn create_directories(state_dir: &Path) -> Result<(), StoreError> {
        for name in [nri_files::EXEC_DIR, SPARE_DIR, nri_files::RECORDS_DIR, PODS_DIR] {
            let path = state_dir.join(name);
            if let Err(source) = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
                return Err(StoreError { path, source });
            }
        }
        Ok(())
    }

    /// Returns why records cannot be written: each is written as a spare file, and then renamed.
    pub(super) fn write_error(&self) -> Option<String> {
        let mut last = self.last_check.lock();
        if let Some(WriteCheck { at, error }) = &*last
            && at.elapsed() < CHECK_VALIDITY
        {
            return error.clone();
        }
        let check = |path: &Path| {
            let checked = nri_host::check_writable(path);
            checked.err().map(|source| StoreError { path: path.to_owned(), source }.to_string())
        };
        let error = [self.spares.dir(), &self.containers].into_iter().find_map(check);
        *last = Some(WriteCheck { at: Instant::now(), error: error.clone() });
        error
    }

    /// Writes the record of a container.
    ///
    /// # Errors
    /// The record cannot be written, for example because the disk is full; the old record remains.
    pub(super) fn save(&self, record: &Record, target: WriteTarget) -> Result<(), StoreError> {
        self.write(self.container_file(&record.key), record, target)
    }

    /// Removes the record of a container.
    pub fn remove(&self, key: &ContainerKey) {
        if !self.is_read_only {
            self.spares.remove(&self.container_file(key));
        }
    }

    /// Writes the record of a pod.
    ///
    /// # Errors
    /// See [`Store::save`].
    pub(super) fn save_pod(&self, pod: &PodRecord, target: WriteTarget) -> Result<(), StoreError> {
        self.write(self.pod_file(pod.id()), pod, target)
    }

    /// Removes the record of a pod.
    pub fn remove_pod(&self, id: &str) {
        if !self.is_read_only {
            self.spares.remove(&self.pod_file(id));
        }
    }

    /// Returns all records of containers, and an error for each file that cannot be read.
    /// Bundles of no record are removed.
    pub fn containers(&self) -> (Vec<Record>, Vec<StoreError>) {
        let (mut records, broken) = read_all::<Record>(&self.containers, self.is_read_only);
        let state_dir = self.containers.parent().unwrap_or(&self.containers);
        // Records that cannot be read may have bundles.
        if !self.is_read_only && broken.is_empty() {
            own::remove_unknown(state_dir, records.iter().filter_map(|r| r.bundle.own.as_ref()));
        }
        for own in records.iter_mut().filter_map(|record| record.bundle.own.as_mut()) {
            own.config = own::read(state_dir, &own.name).map(Into::into);
        }
        (records, broken)
    }

    /// Returns all records of pods, and an error for each file that cannot be read.
    pub fn pods(&self) -> (Vec<PodRecord>, Vec<StoreError>) {
        read_all(&self.pods, self.is_read_only)
    }

    fn write(
        &self,
        path: PathBuf,
        value: &impl Serialize,
        target: WriteTarget,
    ) -> Result<(), StoreError> {
        if self.is_read_only {
            return Ok(());
        }
        let text = serde_json::to_vec(value).map_err(io::Error::from);
        text.and_then(|text| self.spares.write(&path, &text, target))
            .map_err(|source| StoreError { path, source })
    }

    fn container_file(&self, key: &ContainerKey) -> PathBuf {
        self.containers.join(format!("{}.json", key.file_name()))
    }

    fn pod_file(&self, id: &str) -> PathBuf {
        self.pods.join(format!("{}.json", &digest(id.as_bytes())[..32]))
    }
}

/// Replaces a JSON file atomically.
///
/// # Errors
/// The file cannot be written. The old file then remains, and the temporary file is removed.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|bytes| {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = match options.open(&temporary) {
            // A killed nrid may have left its temporary file. That file is removed and not reused,
            // because it could be a symbolic link.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&temporary)?;
                options.open(&temporary)?
            }
            opened => opened?,
        };
        io::Write::write_all(&mut file, &bytes)?;
        fs::rename(&temporary, path)
    });
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Removes the temporary files of writes that were interrupted.
fn remove_temporary_files(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().extension().is_none_or(|e| e != "json") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn read_all<T: DeserializeOwned + Send>(
    dir: &Path,
    is_read_only: bool,
) -> (Vec<T>, Vec<StoreError>) {
    let is_temporary = |path: &PathBuf| path.extension().is_none_or(|e| e != "json");
    let paths = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let (temporary, paths): (Vec<_>, Vec<_>) = paths.partition(is_temporary);
    for file in temporary.into_iter().filter(|_| !is_read_only) {
        let _ = fs::remove_file(file);
    }
    let read = |path: &PathBuf| {
        read_regular(path, nri_files::MAX_RECORD)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from))
            .map_err(|source| StoreError { path: path.clone(), source })
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_READERS);
    let share = paths.len().div_ceil(threads).max(MIN_SHARE);
    let mut results: Vec<Result<T, StoreError>> = Vec::with_capacity(paths.len());
    std::thread::scope(|scope| {
        let mut shares = paths.chunks(share);
        let first = shares.next().unwrap_or_default();
        let read_share = |share: &[PathBuf]| share.iter().map(read).collect::<Vec<_>>();
        let others: Vec<_> = shares
            .map(|share| {
                let thread = std::thread::Builder::new();
                (share, thread.spawn_scoped(scope, move || read_share(share)))
            })
            .collect();
        results.extend(read_share(first));
        for (share, thread) in others {
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(read)) => results.extend(read),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The thread could not be started, for example because of a limit of processes.
                Err(_) => results.extend(read_share(share)),
            }
        }
    });
    let (mut found, mut broken) = (Vec::with_capacity(results.len()), Vec::new());
    for result in results {
        match result {
            Ok(value) => found.push(value),
            Err(error) => broken.push(error),
        }
    }
    (found, broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::pod::{PodKind, PodStatus};
    use nri_api::{Packed, proto::PodSandbox};

    #[test]
    fn a_read_only_store_reads_records_and_changes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::read_only(dir.path());
        assert!(store.pods().0.is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let pod = PodRecord {
            sandbox: Packed::new(&PodSandbox { id: "p".into(), ..PodSandbox::default() }),
            kind: PodKind::Shared,
            status: PodStatus::Running,
            origin: Default::default(),
        };
        Store::open(dir.path()).unwrap().save_pod(&pod, WriteTarget::New).unwrap();
        for name in ["pods", "spare"] {
            fs::write(dir.path().join(name).join("half.new"), "{").unwrap();
        }
        let store = Store::read_only(dir.path());
        assert_eq!(store.pods().0.iter().map(PodRecord::id).collect::<Vec<_>>(), ["p"]);
        let other = PodRecord { status: PodStatus::Stopped, ..pod };
        store.save_pod(&other, WriteTarget::Existing).unwrap();
        store.remove_pod("p");
        assert_eq!(
            store.pods().0.iter().map(|p| p.status).collect::<Vec<_>>(),
            [PodStatus::Running]
        );
        let count = |name: &str| fs::read_dir(dir.path().join(name)).unwrap().count();
        assert_eq!((count("pods"), count("spare")), (2, 1));
    }

    #[test]
    fn a_record_that_is_no_file_or_too_large_is_named_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let path = |name: &str| dir.path().join("pods").join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe.json"), mode).unwrap();
        fs::File::create(path("large.json")).unwrap().set_len(1 << 40).unwrap();
        let mut errors: Vec<_> = store.pods().1.iter().map(ToString::to_string).collect();
        errors.sort();
        let expected = [
            ("large.json", "the file is larger than the limit of 67108864 bytes"),
            ("pipe.json", "not a regular file"),
        ];
        let expected =
            expected.map(|(name, error)| format!("record {}: {error}", path(name).display()));
        assert_eq!(errors, expected);
    }

    #[test]
    fn files_of_interrupted_writes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["containers", "pods", "exec"].map(|name| dir.path().join(name));
        Store::open(dir.path()).unwrap();
        for path in &dirs {
            fs::write(path.join("half.new"), "{").unwrap();
        }
        fs::write(dirs[2].join("complete.json"), "{}").unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert!(store.containers().1.is_empty() && store.pods().1.is_empty());
        let remaining = dirs.map(|path| fs::read_dir(path).unwrap().count());
        assert_eq!(remaining, [0, 0, 1]);
    }
}

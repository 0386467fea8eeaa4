//! Work that may block, kept off the threads that serve requests.
//!
//! [`run`] is for files whose file system may hang, unless there is another way for them below: an
//! access has a time limit, and one file system blocks a limited number of threads, so that other
//! file systems and requests have threads left.
//! [`blocking`] is for work that takes long but ends, such as a write to `memory.max` that reclaims
//! memory, or a walk through `/proc`.
//!
//! With a time limit are accessed: bundles, the directories of runtimes' containers, files of
//! engines, of CDI and of classes, the configuration and the paths in it, the socket for metrics,
//! and the program and the working directory of a runtime that is started. While all threads of a
//! file system are past their limits, further accesses fail at once. Paths that plugins name are
//! left to a child process (`path/probe.rs`), admitted by [`FileAccess::enter`], lines of the audit
//! log to a thread of their own, and a listing of the plugin directory to another.
//!
//! What blocks only if the whole host does is done in place: `/proc`, cgroups, and what is on the
//! file system of the state directory (`near_files.rs`), the log included. If an administrator puts
//! state or log on a disk that hangs, `nrid` hangs with it.

use crate::host::proc::mounts;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{major, minor};
use std::{
    collections::HashMap,
    fmt, fs,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{block_in_place, spawn_blocking},
    time::{Instant, timeout_at},
};

/// Number of threads that may access one file system at the same time. An access takes less than a
/// millisecond unless the file system hangs, so hundreds of concurrent creations need no more.
pub const MAX_THREADS: usize = 8;

/// Number of accesses past their time limits, over all file systems, at which no further access is
/// started: half of tokio's threads for blocking work, so that other work has threads left.
const MAX_LATE: usize = 256;

/// Time limit of a look-up in a directory.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A group of files that share a limit of threads: the files of one file system, as far as that can
/// be determined without an access that could hang.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// The files of a mount, by its id.
    Mount(u64),
    /// The files of a device, by its number.
    Device(u64),
    /// The files in a directory that callers name.
    Directory(PathBuf),
    /// What a child process waits for: devices as `major:minor`, or what stands for them.
    Probed(Vec<String>),
    /// Targets of symbolic links, on unknown mounts.
    Linked,
    /// Specifications of CDI devices.
    CdiSpecs,
    /// The directory of launched plugins.
    Plugins,
    /// The configuration files of `nrid` and of engines.
    Configuration,
    /// Files and directories that the configuration names, as far as only their existence matters.
    ConfiguredPaths,
    /// Files that define block I/O and RDT classes.
    Classes,
    /// The directory of the socket for metrics.
    Metrics,
}

impl FileSystem {
    /// Returns the mount of an open file. Reads only `/proc`, which does not hang.
    pub fn of(fd: impl AsFd) -> Self {
        let info = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
        let text = fs::read_to_string(info).unwrap_or_default();
        let mount = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        mount.and_then(|id| id.trim().parse().ok()).map_or(Self::Linked, Self::Mount)
    }

    /// Returns the files in a directory.
    pub fn directory(path: &Path) -> Self {
        Self::Directory(path.to_owned())
    }
}

/// Names the files so that an administrator finds their file system.
impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(id) => match mounts().iter().find(|mount| mount.id == *id) {
                Some(mount) => write!(f, "mount {}", mount.point.display()),
                None => write!(f, "mount with id {id}"),
            },
            Self::Device(number) => {
                let device = format!("{}:{}", major(*number), minor(*number));
                match mounts().iter().find(|mount| mount.device == device) {
                    Some(mount) => write!(f, "mount {}", mount.point.display()),
                    None => write!(f, "file system of device {device}"),
                }
            }
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::Probed(places) => {
                let mounts = mounts();
                let named = places.iter().map(|place| {
                    let mount = mounts.iter().find(|mount| mount.device == *place);
                    let point = mount.map(|mount| mount.point.display().to_string());
                    point.map_or_else(|| place.clone(), |point| format!("{point} ({place})"))
                });
                write!(f, "file system {}", named.collect::<Vec<_>>().join(", "))
            }
            Self::Linked => f.write_str("targets of symbolic links in bundles"),
            Self::Plugins => f.write_str("the plugin directory"),
            Self::CdiSpecs => f.write_str("directories of CDI specifications"),
            Self::Configuration => f.write_str("configuration files"),
            Self::ConfiguredPaths => f.write_str("paths that the configuration names"),
            Self::Metrics => f.write_str("the directory of the socket for metrics"),
            Self::Classes => f.write_str("files of block I/O and RDT classes"),
        }
    }
}

/// An access that did not end in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its file system hangs")]
pub struct FileSystemHangs;

/// Accesses files on another thread of this process. After an error, the access continues there.
///
/// # Errors
/// The access has not ended within `limit`, which includes the wait for earlier accesses of the
/// file system. Or the access is not started, because too many accesses are past their limits:
/// `MAX_THREADS` to this file system, or `MAX_LATE` in total.
pub async fn run<T: Send + 'static>(
    file_system: FileSystem,
    limit: Duration,
    access: impl FnOnce() -> T + Send + 'static,
) -> Result<T, FileSystemHangs> {
    ACCESS.run(file_system, limit, access).await
}

/// Whether an access to this file system is past its limit.
pub fn hangs(file_system: &FileSystem) -> bool {
    ACCESS.threads(file_system.clone()).late() > 0
}

/// Returns the file systems with an access that is past its limit.
pub fn hanging() -> Vec<FileSystem> {
    ACCESS.hanging()
}

/// Whether any access has not ended. A thread that waits for a file system may keep this process
/// from executing another program, for as long as it waits.
pub fn any_in_progress() -> bool {
    ACCESS.all().values().any(|threads| !threads.deadlines().is_empty())
}

/// The accesses of this process. Static, because they share the threads of the process.
static ACCESS: LazyLock<FileAccess> = LazyLock::new(FileAccess::default);

/// The threads, or child processes, that access files, by file system.
#[derive(Debug)]
pub struct FileAccess {
    file_systems: Mutex<HashMap<FileSystem, Arc<Threads>>>,
    /// Number of accesses to one file system past their limits at which none is started.
    max_late: usize,
}

impl Default for FileAccess {
    fn default() -> Self {
        Self { file_systems: Mutex::default(), max_late: MAX_THREADS }
    }
}

/// The threads that access one file system.
#[derive(Debug)]
struct Threads {
    file_system: FileSystem,
    /// Whether the log says that the file system hangs.
    reported: AtomicBool,
    permits: Arc<Semaphore>,
    /// The deadlines of the accesses in progress.
    deadlines: Mutex<Vec<Instant>>,
}

/// An access in progress.
#[derive(Debug)]
pub struct Access {
    threads: Arc<Threads>,
    deadline: Instant,
    _permit: Option<OwnedSemaphorePermit>,
}

impl FileAccess {
    /// Returns the accesses of child processes, none of which is started to a file system while
    /// another is past its limit.
    pub fn of_children() -> Self {
        Self { max_late: 1, ..Self::default() }
    }

    /// Waits until a child process may access a file system, which it does as long as the result
    /// exists.
    ///
    /// # Errors
    /// Earlier accesses have not ended by `deadline`, or no further access is started, see [`run`].
    pub async fn enter(
        &self,
        file_system: FileSystem,
        deadline: Instant,
    ) -> Result<Access, FileSystemHangs> {
        let threads = self.admit(file_system)?;
        timeout_at(deadline, threads.start(deadline)).await.map_err(|_| FileSystemHangs)
    }

    /// Returns the file systems with accesses past their limits, and the number of these.
    pub fn late_accesses(&self) -> Vec<(FileSystem, usize)> {
        let all = self.all();
        let late = all.values().map(|threads| (threads.file_system.clone(), threads.late()));
        late.filter(|(_, late)| *late > 0).collect()
    }

    async fn run<T: Send + 'static>(
        &self,
        file_system: FileSystem,
        limit: Duration,
        access: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FileSystemHangs> {
        let deadline = Instant::now() + limit;
        let threads = self.admit(file_system)?;
        let done = async {
            let in_progress = threads.start(deadline).await;
            let access = spawn_blocking(move || {
                let _in_progress = in_progress;
                access()
            });
            match access.await {
                Ok(result) => Ok(result),
                Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                // Cancelled, because the process ends.
                Err(_) => Err(FileSystemHangs),
            }
        };
        timeout_at(deadline, done).await.unwrap_or_else(|_| {
            threads.report();
            Err(FileSystemHangs)
        })
    }

    /// Returns the threads of a file system, unless no further access is started.
    fn admit(&self, file_system: FileSystem) -> Result<Arc<Threads>, FileSystemHangs> {
        let threads = self.threads(file_system);
        if threads.late() >= self.max_late {
            threads.report();
            return Err(FileSystemHangs);
        }
        // Not logged here: each of these file systems was logged when an access timed out.
        if self.late() >= MAX_LATE {
            return Err(FileSystemHangs);
        }
        Ok(threads)
    }

    /// Returns the number of threads that are past the limits of their accesses.
    fn late(&self) -> usize {
        self.all().values().map(|threads| threads.late()).sum()
    }

    fn hanging(&self) -> Vec<FileSystem> {
        self.late_accesses().into_iter().map(|(file_system, _)| file_system).collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<FileSystem, Arc<Threads>>> {
        self.file_systems.lock()
    }

    fn threads(&self, file_system: FileSystem) -> Arc<Threads> {
        let mut all = self.all();
        // File systems come and go: those without an access are forgotten.
        all.retain(|_, threads| Arc::strong_count(threads) > 1);
        let new = || Threads {
            file_system: file_system.clone(),
            reported: AtomicBool::default(),
            permits: Arc::new(Semaphore::new(MAX_THREADS)),
            deadlines: Mutex::default(),
        };
        all.entry(file_system.clone()).or_insert_with(|| Arc::new(new())).clone()
    }
}

impl Threads {
    /// Waits for a thread.
    async fn start(self: &Arc<Self>, deadline: Instant) -> Access {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        self.deadlines().push(deadline);
        Access { threads: self.clone(), deadline, _permit: permit }
    }

    /// Logs once that the file system hangs, until it has replied to all accesses.
    fn report(&self) {
        if !self.reported.swap(true, Relaxed) {
            tracing::error!(
                file_system = %self.file_system,
                "a file system hangs: requests that need it fail"
            );
        }
    }

    /// Returns the number of threads that are past the limits of their accesses.
    fn late(&self) -> usize {
        let now = Instant::now();
        self.deadlines().iter().filter(|deadline| **deadline < now).count()
    }

    fn deadlines(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.deadlines.lock()
    }
}

impl Access {
    /// Logs that the access is past its limit, as `Threads::report` does.
    pub fn report(&self) {
        self.threads.report();
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let mut deadlines = self.threads.deadlines();
        if let Some(index) = deadlines.iter().position(|deadline| *deadline == self.deadline) {
            deadlines.swap_remove(index);
        }
        if deadlines.is_empty() && self.threads.reported.swap(false, Relaxed) {
            let file_system = &self.threads.file_system;
            tracing::info!(%file_system, "the file system that hung has replied");
        }
    }
}

/// Does work that may take long, but ends. The other tasks of this thread move to another thread.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        // In a test, or outside of the runtime.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    };

    #[tokio::test]
    async fn a_file_system_that_hangs_leaves_threads_for_others() {
        let access = FileAccess::default();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let begun = Arc::new(AtomicUsize::new(0));
        let hang = |limit| {
            let (ended, begun) = (ended.clone(), begun.clone());
            access.run(FileSystem::Mount(1), limit, move || {
                begun.fetch_add(1, SeqCst);
                let _ = ended.lock().recv();
            })
        };
        for _ in 0..MAX_THREADS {
            assert_eq!(hang(Duration::from_millis(20)).await, Err(FileSystemHangs));
        }
        // Refused at once: the test would not end if this access waited for its limit.
        assert_eq!(hang(Duration::MAX / 4).await, Err(FileSystemHangs));
        assert_eq!(begun.load(SeqCst), MAX_THREADS);
        assert_eq!(access.hanging(), [FileSystem::Mount(1)]);
        let long = Duration::from_secs(60);
        assert_eq!(access.run(FileSystem::Mount(2), long, || 7).await, Ok(7));
        drop(end);
        let works = || access.run(FileSystem::Mount(1), long, || 8);
        while works().await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(access.all().len(), 1, "the other mount was not forgotten");
    }

    #[tokio::test]
    async fn many_file_systems_that_hang_leave_threads_for_other_work() {
        let access = FileAccess::default();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let hang = |mount| {
            let ended = ended.clone();
            let hang = move || {
                let _ = ended.lock().recv();
            };
            access.run(FileSystem::Mount(mount), Duration::ZERO, hang)
        };
        for mount in 0..MAX_LATE as u64 {
            hang(mount).await.unwrap_err();
        }
        assert_eq!(access.late(), MAX_LATE);
        let long = Duration::from_secs(60);
        let other = || access.run(FileSystem::Mount(u64::MAX), long, || 7);
        assert_eq!(other().await, Err(FileSystemHangs));
        drop(end);
        while other().await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn no_child_waits_for_a_file_system_of_which_one_is_stuck() {
        let access = FileAccess::of_children();
        let system = |name: &str| FileSystem::Probed(vec![name.to_owned()]);
        let now = Instant::now();
        let stuck = access.enter(system("0:1"), now - Duration::from_secs(1)).await;
        // The permit is there, so the time limit is not looked at.
        let stuck = stuck.unwrap();
        // Refused at once: the test would not end if this waited for its limit.
        let far = now + Duration::from_secs(3600);
        assert_eq!(access.enter(system("0:1"), far).await.err(), Some(FileSystemHangs));
        let others: Vec<_> = [system("0:2"), system("0:3")].into();
        for other in others {
            assert!(access.enter(other, far).await.is_ok());
        }
        assert_eq!(access.late_accesses(), [(system("0:1"), 1)]);
        drop(stuck);
        assert!(access.enter(system("0:1"), far).await.is_ok());
        assert_eq!(system("0:4294967295").to_string(), "file system 0:4294967295");
    }

    #[tokio::test]
    async fn a_file_system_that_hangs_is_reported_once_until_it_replies() {
        let access = FileAccess::default();
        let (end, ended) = mpsc::channel::<()>();
        let hang = move || ended.recv().unwrap_or_default();
        let threads = access.threads(FileSystem::Mount(1));
        access.run(FileSystem::Mount(1), Duration::ZERO, hang).await.unwrap_err();
        assert!(threads.reported.load(SeqCst));
        drop(end);
        while threads.reported.load(SeqCst) {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn file_systems_are_named_by_their_mount_points() {
        let file = fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(FileSystem::of(&file).to_string(), "mount /proc");
        let device = rustix::fs::fstat(&file).unwrap().st_dev;
        assert_eq!(FileSystem::Device(device).to_string(), "mount /proc");
        assert_eq!(FileSystem::Mount(u64::MAX).to_string(), format!("mount with id {}", u64::MAX));
        assert_eq!(FileSystem::directory(Path::new("/a")).to_string(), "directory /a");
    }

    #[test]
    fn files_of_one_mount_have_one_limit() {
        let open = |path: &str| FileSystem::of(fs::File::open(path).unwrap());
        assert!(matches!(open("/proc/self/stat"), FileSystem::Mount(_)));
        assert_eq!(open("/proc/self/stat"), open("/proc/self/status"));
        assert_ne!(open("/proc/self/stat"), open("/dev/null"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_work_blocks() {
        let (sender, receiver) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let work = tokio::spawn(async move {
            begin.send(()).unwrap();
            blocking(|| receiver.recv().unwrap())
        });
        begun.await.unwrap();
        // This task runs only if the single worker is free.
        tokio::spawn(async move { sender.send(5).unwrap() }).await.unwrap();
        assert_eq!(work.await.unwrap(), 5);
    }
}

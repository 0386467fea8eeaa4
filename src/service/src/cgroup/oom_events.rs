//! Events by which the kernel reports that control groups have reached their memory limits. Start
//! from [`OomMonitor`].
//!
//! In cgroup v2, one inotify instance serves all containers: by default, a user may have 128
//! instances, and `nrid` shares the instances of root with many programs. In cgroup v1, each
//! container needs an eventfd of its own.

use crate::host::{
    descriptors::{DescriptorPermit, Descriptors},
    problems::{Problem, Problems},
    sys,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::inotify,
};
use std::{
    collections::HashMap,
    fs, io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{io::unix::AsyncFd, time::sleep};

/// Pause between two reads of events. A control group under memory pressure causes an event every
/// 10 ms; events of one group that arrive in a pause are handled as one.
const EVENT_PAUSE: Duration = Duration::from_millis(20);

/// Opens the sources of events.
#[derive(Debug)]
pub struct OomMonitor {
    descriptors: Arc<Descriptors>,
    problems: Problems,
    v2: Mutex<Option<Arc<MemoryEvents>>>,
}

/// The source of the events of a control group.
#[derive(Debug)]
pub(super) enum Events {
    /// The eventfd of the control group.
    V1 { eventfd: AsyncFd<OwnedFd>, _descriptor: DescriptorPermit },
    /// The common inotify instance.
    V2(Subscription),
}

/// Subscription to the events of one control group in the common inotify instance.
#[derive(Debug)]
pub(super) struct Subscription {
    source: Arc<MemoryEvents>,
    /// Descriptor of the inotify watch.
    number: i32,
    subscriber: Arc<Subscriber>,
}

/// Receiver of events.
#[derive(Default)]
struct Subscriber {
    /// Number of events since the last [`Events::take`].
    pending: AtomicU64,
    on_event: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// The inotify instance for `memory.events` of all containers.
#[derive(Debug)]
struct MemoryEvents {
    inotify: AsyncFd<OwnedFd>,
    /// Subscribers by inotify watch; several containers may share a control group.
    subscribers: Mutex<Subscribers>,
}

type Subscribers = HashMap<i32, Vec<Weak<Subscriber>>>;

impl OomMonitor {
    /// Creates the monitor. No descriptor is opened yet.
    pub fn new(descriptors: Arc<Descriptors>, problems: Problems) -> Self {
        Self { descriptors, problems, v2: Mutex::default() }
    }

    /// Opens the events of a control group of cgroup v1, by its `memory.oom_control`.
    pub(super) fn v1(&self, file: &Path) -> io::Result<Events> {
        let descriptor = self.descriptors.oom_watch().ok_or_else(|| {
            io::Error::other("the limit of open files is too low for all containers")
        })?;
        Ok(Events::V1 { eventfd: sys::wait_readable(notify_v1(file)?)?, _descriptor: descriptor })
    }

    /// Opens the events of a control group of cgroup v2, by its `memory.events`.
    pub(super) fn v2(&self, file: &Path) -> io::Result<Events> {
        MemoryEvents::subscribe(&self.instance()?, file).map(Events::V2)
    }

    /// Reports that a container cannot be watched for OOM kills.
    pub(super) fn report(&self, error: &io::Error) -> Problem {
        self.problems.report(format!(
            "containers cannot be watched for OOM kills, nrid only reads their counters at the \
             exit: {error}"
        ))
    }

    fn instance(&self) -> io::Result<Arc<MemoryEvents>> {
        let mut v2 = self.v2.lock();
        if let Some(instance) = &*v2 {
            return Ok(instance.clone());
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(|e| explained(e, "max_user_instances"))?;
        let instance = Arc::new(MemoryEvents {
            inotify: sys::wait_readable(inotify)?,
            subscribers: Mutex::default(),
        });
        tokio::spawn(follow(instance.clone()));
        *v2 = Some(instance.clone());
        Ok(instance)
    }
}

/// Adds the name of the inotify limit that may have caused an error.
fn explained(error: rustix::io::Errno, limit: &str) -> io::Error {
    let error = io::Error::from(error);
    match error.kind() {
        io::ErrorKind::NotFound => error,
        kind => io::Error::new(kind, format!("inotify: {error} (fs.inotify.{limit})")),
    }
}

impl Events {
    /// Returns the number of events since the last call. In cgroup v1 the removal of the group also
    /// is an event.
    pub(super) fn take(&self) -> u64 {
        match self {
            Self::V1 { eventfd, .. } => {
                let mut count = [0; 8];
                let read = rustix::io::read(eventfd.get_ref(), &mut count[..]);
                if read.is_ok_and(|n| n == count.len()) { u64::from_ne_bytes(count) } else { 0 }
            }
            Self::V2(Subscription { subscriber, .. }) => {
                subscriber.pending.swap(0, Ordering::Relaxed)
            }
        }
    }

    /// Reads the events that the kernel has sent so far; cgroup v2 only.
    pub(super) fn read(&self) {
        if let Self::V2(subscription) = self {
            subscription.source.dispatch();
        }
    }

    /// Sets the function that is called at each event; cgroup v2 only.
    pub(super) fn on_event(&self, check: impl Fn() + Send + Sync + 'static) {
        if let Self::V2(Subscription { subscriber, .. }) = self {
            let _ = subscriber.on_event.set(Box::new(check));
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.source.lock();
        let Some(group) = subscribers.get_mut(&self.number) else { return };
        group.retain(|other| !std::ptr::eq(other.as_ptr(), &*self.subscriber));
        if group.is_empty() {
            subscribers.remove(&self.number);
            // Fails if the control group was removed.
            let _ = inotify::remove_watch(self.source.inotify.get_ref(), self.number);
        }
    }
}

impl MemoryEvents {
    fn subscribe(source: &Arc<Self>, file: &Path) -> io::Result<Subscription> {
        let subscriber = Arc::<Subscriber>::default();
        // Locked until the subscriber is in the map, since events may arrive at once.
        let mut subscribers = source.lock();
        let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::DELETE_SELF;
        let number = inotify::add_watch(source.inotify.get_ref(), file, events)
            .map_err(|e| explained(e, "max_user_watches"))?;
        subscribers.entry(number).or_default().push(Arc::downgrade(&subscriber));
        Ok(Subscription { source: source.clone(), number, subscriber })
    }

    /// Reads all events, and calls the subscribers of their control groups.
    fn dispatch(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut subscribers = self.lock();
        let mut events = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
        let (mut counts, mut removed) = (HashMap::<i32, u64>::new(), Vec::new());
        while let Ok(event) = events.next() {
            let flags = event.events();
            if flags.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                subscribers.keys().for_each(|number| *counts.entry(*number).or_default() += 1);
            }
            if flags.contains(inotify::ReadFlags::MODIFY) {
                *counts.entry(event.wd()).or_default() += 1;
            }
            if flags.contains(inotify::ReadFlags::IGNORED) {
                counts.entry(event.wd()).or_default();
                removed.push(event.wd());
            }
        }
        let mut called = Vec::new();
        for (number, count) in counts {
            for subscriber in subscribers.get(&number).into_iter().flatten() {
                let Some(subscriber) = subscriber.upgrade() else { continue };
                subscriber.pending.fetch_add(count, Ordering::Relaxed);
                called.push(subscriber);
            }
        }
        removed.iter().for_each(|number| drop(subscribers.remove(number)));
        drop(subscribers);
        for subscriber in called {
            if let Some(call) = subscriber.on_event.get() {
                call();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock()
    }
}

/// Reads events as long as `nrid` runs.
async fn follow(instance: Arc<MemoryEvents>) {
    loop {
        let Ok(mut ready) = instance.inotify.readable().await else { return };
        instance.dispatch();
        ready.clear_ready();
        // Read again, for events that arrived before the flag was cleared.
        instance.dispatch();
        sleep(EVENT_PAUSE).await;
    }
}

fn notify_v1(file: &Path) -> io::Result<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let control = fs::File::open(file)?;
    let text = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    fs::write(file.with_file_name("cgroup.event_control"), text)?;
    Ok(event)
}

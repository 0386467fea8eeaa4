//! [`ThisProcess`]: the log and the end of this process, and what a status says about it.

use crate::{
    host::{descriptors::Descriptors, problems::Problems},
    process::{activation::Activation, log::Log, parent::Parent, program::Program},
    settings::load::Settings,
};
use nri_config::{UnknownLogLevel, parse_log_level};
use nri_control::Inherited;
use nri_files::UncleanEnd;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::sync::{Mutex, watch};

/// This process.
pub struct ThisProcess {
    /// The log.
    pub log: Log,
    /// The program; `None` if its path is unknown.
    pub program: Option<Program>,
    /// How it was started.
    pub start: Start,
    /// The parent.
    pub parent: Parent,
    /// Shares of the limit of open files.
    pub descriptors: Arc<Descriptors>,
    /// Conditions of the host that limit what `nrid` can do.
    pub problems: Problems,
    /// Held while the configuration is reloaded.
    pub reloading: Mutex<()>,
    /// The end that was requested; `None` while `nrid` serves.
    ending: watch::Sender<Option<Ending>>,
    /// Whether `nrid` ends without completing the requests in progress. The next `nrid` completes
    /// them.
    abandoned: watch::Sender<bool>,
    /// Number of requests in progress.
    in_progress: AtomicUsize,
}

/// The start of a process.
#[derive(Debug)]
pub struct Start {
    /// Time of the start.
    pub time: Instant,
    /// Paths of the sockets for plugins.
    pub plugin_sockets: Vec<PathBuf>,
    /// What `nrid` has inherited from the process that started it, and cannot reset.
    pub inherited: Vec<Inherited>,
    /// Last end of an `nrid` of this state directory that was not clean.
    pub unclean_end: Option<UncleanEnd>,
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The process ends.
    Stop,
    /// The program at this path replaces the running one in the same process.
    Restart(PathBuf),
}

/// A request in progress: a clean end waits for it.
pub struct InProgress<'a>(&'a AtomicUsize);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ThisProcess {
    /// Describes this process. Takes from `activation` what a status reports.
    pub fn new(
        log: Log,
        activation: &mut Activation,
        plugin_sockets: Vec<PathBuf>,
        unclean_end: Option<UncleanEnd>,
    ) -> Self {
        let inherited = std::mem::take(&mut activation.inherited);
        Self {
            log,
            program: Program::of_this_process(activation.restart_error.take()),
            start: Start { time: Instant::now(), plugin_sockets, inherited, unclean_end },
            parent: Parent::default(),
            descriptors: Arc::new(Descriptors::of_this_process()),
            problems: Problems::default(),
            reloading: Mutex::default(),
            ending: watch::channel(None).0,
            abandoned: watch::channel(false).0,
            in_progress: AtomicUsize::new(0),
        }
    }

    /// Changes the level of the log until the next reload; `None` means that of the configuration.
    ///
    /// # Errors
    /// The level is unknown.
    pub fn set_log_level(
        &self,
        level: Option<&str>,
        settings: &Settings,
    ) -> Result<(), UnknownLogLevel> {
        let level = level.map(parse_log_level).transpose()?;
        let level = level.unwrap_or_else(|| settings.config.log.level.clone());
        // Logged before and after, so that one of both is not filtered out.
        tracing::info!(level, "the level of the log changes");
        self.log.set_level(level.clone());
        tracing::info!(level, "the level of the log has changed");
        Ok(())
    }

    /// Requests a clean end. A stop cannot be changed to a restart.
    pub fn end(&self, ending: Ending) {
        self.ending.send_modify(|requested| {
            if *requested != Some(Ending::Stop) {
                *requested = Some(ending);
            }
        });
    }

    /// Returns the end that was requested.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Waits until a clean end is requested.
    pub async fn end_requested(&self) {
        let mut receiver = self.ending.subscribe();
        // Cannot fail: the sender is a field of `self`, so it is not dropped meanwhile.
        let _ = receiver.wait_for(Option::is_some).await;
    }

    /// Counts a request as in progress. Returns `None` if an end was requested: the next `nrid`
    /// then serves the request. The request is counted before the check, so that an end that is
    /// requested after the check waits for the request.
    pub fn start_request(&self) -> Option<InProgress<'_>> {
        self.in_progress.fetch_add(1, Ordering::SeqCst);
        let request = InProgress(&self.in_progress);
        self.ending.borrow().is_none().then_some(request)
    }

    /// Whether a request is in progress.
    pub fn is_busy(&self) -> bool {
        self.in_progress.load(Ordering::SeqCst) > 0
    }

    /// Abandons the requests in progress, which the next `nrid` completes.
    pub fn abandon(&self) {
        self.abandoned.send_replace(true);
    }

    /// Waits until the requests in progress are abandoned.
    pub async fn abandoned(&self) {
        let mut receiver = self.abandoned.subscribe();
        // Cannot fail: the sender is a field of `self`, so it is not dropped meanwhile.
        let _ = receiver.wait_for(|abandoned| *abandoned).await;
    }
}

//! The service: what all requests share. What each of them does stands in the file of its name.

use crate::{
    daemon::{log::Log, restart::Program, sharing::SharedPlugins},
    engine::own_nri::EngineNri,
    host::path_probe::PathProbe,
    resources::keeper::Keeper,
    settings::load::Settings,
    state::{
        claims::Claims,
        record::Key,
        registry::{LaneGuard, Registry},
    },
};
use nri_adaptation::Adaptation;
use std::{
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How long a `delete` waits for another verb of the same container; then it goes on, since a
/// container must always be deletable.
pub const DELETE_PATIENCE: Duration = Duration::from_secs(10);

/// The resident core.
pub struct Service {
    /// What it was told last.
    pub settings: RwLock<Arc<Settings>>,
    /// Where it writes what happens.
    pub log: Log,
    /// Held by who reads the configuration anew.
    pub reloading: tokio::sync::Mutex<()>,
    /// What it knows.
    pub registry: Arc<Registry>,
    /// The ids of creations that are under way.
    pub claims: Claims,
    /// Engines whose own NRI is on.
    pub engine_nri: EngineNri,
    /// The shared plugins, if they are an engine's.
    pub shared_plugins: SharedPlugins,
    /// Lookups of paths that plugins and OCI configs name.
    pub path_probe: PathProbe,
    /// Who sets resources.
    pub keeper: Arc<Keeper>,
    /// The plugins.
    pub adaptation: Adaptation,
    /// When it started.
    pub started: Instant,
    /// Its sockets for plugins.
    pub plugin_sockets: Vec<PathBuf>,
    /// The program that we are.
    pub program: Option<Program>,
    /// Which clean end was asked for.
    pub ending: watch::Sender<Option<Ending>>,
    /// What is under way is the successor's to decide.
    pub given_up: watch::Sender<bool>,
    /// How many requests are being handled.
    pub under_way: AtomicUsize,
}

/// A request that is being handled: a clean end waits for it.
pub struct UnderWay<'a>(&'a Service);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// For good.
    Stop,
    /// For this program, in this process.
    Restart(PathBuf),
}

impl Service {
    /// What holds now. Two calls may return different settings: who needs several that fit together
    /// calls once.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these hold.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Asks for a clean end. One for good is not taken back.
    pub fn end(&self, ending: Ending) {
        self.ending.send_modify(|asked| {
            if *asked != Some(Ending::Stop) {
                *asked = Some(ending);
            }
        });
    }

    /// Begins to handle a request; `None` when an end was asked for: it is the successor's. Either
    /// we see the end, or the end sees us.
    pub fn begin(&self) -> Option<UnderWay<'_>> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let begun = UnderWay(self);
        self.ending.borrow().is_none().then_some(begun)
    }

    /// Whether anything is being done for anybody.
    pub fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) > 0 || self.registry.is_busy()
    }

    /// Waits until what is under way is given up.
    pub async fn given_up(&self) {
        let mut receiver = self.given_up.subscribe();
        // The sender lives in self.
        let _ = receiver.wait_for(|given_up| *given_up).await;
    }

    /// Waits until a clean end is asked for.
    pub async fn ended(&self) {
        let mut receiver = self.ending.subscribe();
        // The sender lives in self.
        let _ = receiver.wait_for(Option::is_some).await;
    }

    /// Waits for the turn in a container's lane.
    pub async fn lane(&self, key: &Key) -> LaneGuard {
        self.registry.lane(key).lock_owned().await
    }

    /// As [`Service::lane`], but not for ever.
    pub async fn lane_within(&self, key: &Key, patience: Duration) -> Option<LaneGuard> {
        tokio::time::timeout(patience, self.lane(key)).await.ok()
    }
}

//! Log of calls and effects that tests wait for and compare.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Log of calls and effects, in order. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log(Arc<watch::Sender<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.send_modify(|log| log.push(entry.into()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Returns the rest of each entry that starts with `prefix` and a blank.
    pub(crate) fn of(&self, prefix: &str) -> Vec<String> {
        let start = format!("{prefix} ");
        self.all().iter().filter_map(|e| e.strip_prefix(&start)).map(str::to_owned).collect()
    }

    /// Waits until the entry is logged.
    pub(crate) async fn wait(&self, entry: &str) {
        self.wait_times(entry, 1).await;
    }

    /// Waits until the entry is logged at least this many times.
    pub(crate) async fn wait_times(&self, entry: &str, times: usize) {
        let mut log = self.0.subscribe();
        let found = log.wait_for(|log| log.iter().filter(|e| *e == entry).count() >= times);
        if tokio::time::timeout(Duration::from_secs(60), found).await.is_err() {
            panic!("{entry:?} not logged {times} times: {:#?}", self.all());
        }
    }
}

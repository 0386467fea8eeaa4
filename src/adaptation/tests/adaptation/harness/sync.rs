//! Synchronization of tests with tasks.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Blocks handlers; each call of `open` lets one of them pass.
pub(crate) struct Gate(Semaphore);

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// Runs all tasks until they wait for time to pass. The runtime has one thread, so one yield runs
/// every ready task once; a thousand yields exceed the longest chain of wake-ups in these tests.
pub(crate) async fn run_until_idle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

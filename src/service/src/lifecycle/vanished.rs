//! Detection of containers that were deleted without a verb: by a wrapper that found no `nrid`
//! while the next one was starting, or by a call of the bare runtime.

use crate::{error::CallerError, service::Service, state::container::Container};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Interval of the search. It costs the lookup of one directory per container.
const SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// Interval before the first search, doubled until [`SEARCH_INTERVAL`]: wrappers that found no
/// `nrid` may be deleting containers while it starts.
const FIRST_SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// Interval of the check while a change is imminent.
const IMMINENT_POLL: Duration = Duration::from_millis(5);

/// Time that a creation waits for another one of the same id, until the other runtime has made the
/// container's directory. That takes milliseconds, unless a file system hangs.
const OTHER_CREATION_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Waits until the runtime of another creation has made the container's directory, or that
    /// creation has ended.
    ///
    /// # Errors
    /// The other creation takes too long.
    pub async fn wait_for_creation(&self, container: &Container) -> Result<(), CallerError> {
        let deadline = Instant::now() + OTHER_CREATION_TIMEOUT;
        while container.is_being_created() {
            if Instant::now() > deadline {
                let pid = container.record().caller.map_or(0, |caller| caller.pid);
                return Err(CallerError::CreationInProgress { pid });
            }
            sleep(IMMINENT_POLL).await;
        }
        Ok(())
    }

    /// Searches for vanished containers until `nrid` ends.
    pub async fn find_vanished(self: Arc<Self>) {
        let mut pause = FIRST_SEARCH_INTERVAL;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(SEARCH_INTERVAL);
            for container in self.registry.all() {
                if container.has_vanished() && self.vanished(&container).await {
                    let id = container.key().id;
                    tracing::info!(container = id, "container was deleted without a verb");
                }
            }
        }
    }

    /// Waits for the deletion of a container that its runtime is about to delete. If that takes
    /// longer, the search finds it.
    pub fn expect_deletion(self: &Arc<Self>, container: Arc<Container>) {
        let service = self.clone();
        tokio::spawn(async move {
            let deadline = Instant::now() + SEARCH_INTERVAL;
            while !container.has_vanished() && Instant::now() < deadline {
                sleep(IMMINENT_POLL).await;
            }
            service.vanished(&container).await
        });
    }

    /// Removes a vanished container. Returns whether this call removed it.
    async fn vanished(&self, container: &Container) -> bool {
        // If a verb holds the lock, the verb reports the deletion, or the next search finds it.
        let Some(_lock) = self.locks.try_container(&container.key()) else { return false };
        let vanished = self.registry.contains(container) && container.has_vanished();
        if vanished {
            self.removed(container).await;
        }
        vanished
    }
}

//! Containers that were deleted without a word: by a wrapper that found no `nrid` while the next
//! one was starting, or by a call of the bare runtime.

use crate::{
    error::CallerError,
    service::{DELETE_PATIENCE, Service},
    state::{
        record::{Caller, Phase},
        registry::Container,
    },
};
use std::{sync::Arc, time::Duration};

/// How often it is looked for them. It costs a look at one directory for each container.
const LOOK: Duration = Duration::from_secs(2);
/// The first time: wrappers that found nobody are at work when we begin.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// How often it is looked where the end is near.
const SOON: Duration = Duration::from_millis(5);

impl Container {
    /// Whether the runtime that is to make it is at work, and does not know it yet: what another
    /// verb finds is not its end.
    pub fn is_being_made(&self) -> bool {
        let record = self.record();
        record.phase == Phase::Creating
            && record.caller.is_some_and(Caller::is_alive)
            && !self.is_there()
    }
}

impl Service {
    /// Waits until the container that another process is making is there, or until nobody makes it
    /// any more.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn wait_until_made(&self, container: &Container) -> Result<(), CallerError> {
        let deadline = tokio::time::Instant::now() + DELETE_PATIENCE;
        while container.is_being_made() {
            if tokio::time::Instant::now() > deadline {
                let pid = container.record().caller.map_or(0, |caller| caller.pid);
                return Err(CallerError::CreationInProgress { pid });
            }
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Looks for them for as long as it runs.
    pub async fn notice_gone(self: Arc<Self>) {
        let mut pause = FIRST_LOOK;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK);
            for container in self.registry.all() {
                if container.has_vanished() && self.finish_gone(&container).await {
                    tracing::info!(container = container.key().id, "it was deleted without a word");
                }
            }
        }
    }

    /// Finishes a container that the runtime is about to delete, when it has; where it does not,
    /// the look at all of them finds it one day.
    pub fn expect_end(self: &Arc<Self>, container: Arc<Container>) {
        let service = self.clone();
        tokio::spawn(async move {
            let deadline = tokio::time::Instant::now() + LOOK;
            while !container.has_vanished() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(SOON).await;
            }
            service.finish_gone(&container).await
        });
    }

    /// Whether it was for us to finish it.
    async fn finish_gone(&self, container: &Arc<Container>) -> bool {
        let key = container.key();
        // Whoever has the lane reports, or it is looked at again.
        let Ok(_lane) = self.registry.lane(&key).try_lock_owned() else { return false };
        let known = self.registry.get(&key).is_some_and(|known| Arc::ptr_eq(&known, container));
        let ours = known && container.has_vanished();
        if ours {
            self.finish(container).await;
        }
        ours
    }
}

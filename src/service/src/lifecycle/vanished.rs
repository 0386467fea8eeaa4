//! Detection of containers that were deleted without a verb of `nrid`: by a wrapper that found no
//! `nrid` running, or by a direct call of the runtime.

use crate::{
    error::{CallerError, Error, HostError},
    host::{
        file_access::{self, FileSystem, LOOKUP_TIMEOUT},
        problems::{Problem, Problems},
        process::ProcessIdentity,
        removals::Removals,
    },
    lifecycle::missed_start,
    service::Service,
    state::{container::Container, key::ContainerKey},
};
use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};

/// Interval of the searches.
const SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// Interval before the first search, doubled until [`SEARCH_INTERVAL`]: wrappers that found no
/// `nrid` may delete containers while `nrid` starts. These first searches visit all containers.
const FIRST_SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// Number of later searches that together visit all containers. A round takes a minute, because
/// inotify reports deletions at once, unless it cannot be used.
const SEARCHES_PER_ROUND: usize = 30;

/// Minimum number of containers that a search visits, since looking up a few takes little time.
const MIN_VISITS: usize = 200;

/// Time between inotify's report of a deletion and its handling here. In this time, a verb or a
/// hook may handle the deletion, and the parent of the container's first process may reap the
/// process, so that its exit status is known.
const NOTICE_DELAY: Duration = Duration::from_millis(200);

/// Interval at which `nrid` checks whether a runtime has created or deleted a container.
const RUNTIME_POLL: Duration = Duration::from_millis(5);

/// Time that a creation waits until the runtime of another creation of the same id has created the
/// container's directory. The runtime needs milliseconds, unless a file system hangs.
const OTHER_CREATION_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Waits until the runtime of another creation has created the container's directory, or that
    /// creation has ended.
    ///
    /// # Errors
    /// The other creation takes too long, or the container's directory cannot be looked up.
    pub async fn wait_for_creation(&self, container: &Container) -> Result<(), Error> {
        let deadline = Instant::now() + OTHER_CREATION_TIMEOUT;
        let unreadable = |e| HostError::unreadable_root(container.key(), e);
        while container.is_being_created().await.map_err(unreadable)? {
            if Instant::now() > deadline {
                let caller = container.record().caller;
                let pid = caller.map_or(0, |caller| caller.pid);
                return Err(if caller.is_some_and(ProcessIdentity::is_stopped) {
                    CallerError::Stopped { pid }.into()
                } else {
                    CallerError::CreationInProgress { pid }.into()
                });
            }
            sleep(RUNTIME_POLL).await;
        }
        Ok(())
    }

    /// Removes vanished containers until `nrid` ends: those whose deletion inotify reports, and
    /// those that a search finds.
    pub async fn find_vanished(self: Arc<Self>) {
        let (mut interval, mut search) = (FIRST_SEARCH_INTERVAL, Search::default());
        let mut next_search = Instant::now() + interval;
        let mut noticed: Vec<ContainerKey> = Vec::new();
        let mut next_check = None;
        let mut removals = RootWatch::new(self.process.problems.clone());
        loop {
            tokio::select! {
                keys = removals.next() => {
                    noticed.extend(keys);
                    next_check.get_or_insert_with(|| Instant::now() + NOTICE_DELAY);
                    continue;
                }
                () = sleep_until(next_check.map_or(next_search, |at| next_search.min(at))) => {}
            }
            let now = Instant::now();
            if next_check.take_if(|at| *at <= now).is_some() {
                for key in std::mem::take(&mut noticed) {
                    let Some(container) = self.registry.get(&key) else { continue };
                    self.remove_if_vanished(&container).await;
                    // A verb holds the lock: check again later.
                    if self.registry.contains(&container) && container.has_vanished().await {
                        noticed.push(key);
                    }
                }
                next_check = (!noticed.is_empty()).then_some(now + SEARCH_INTERVAL);
            }
            if next_search <= now {
                let is_first = interval < SEARCH_INTERVAL;
                // Earlier deletions in a newly watched root may have gone unnoticed.
                let is_complete = removals.watch(self.responding_roots().await) || is_first;
                let visited = search.next(is_complete, || self.registry.all());
                for container in find_changed(visited).await {
                    if container.has_vanished().await {
                        self.remove_if_vanished(&container).await;
                    }
                    self.notice_start(&container).await;
                }
                interval = (interval * 2).min(SEARCH_INTERVAL);
                next_search = now + interval;
            }
        }
    }

    /// Returns the runtime roots whose file systems do not hang.
    async fn responding_roots(&self) -> Vec<PathBuf> {
        let mut responding = Vec::new();
        for root in self.registry.roots() {
            let file_system = FileSystem::directory(&root);
            let look_up = move || {
                // Only a hanging call matters: a missing directory is watched later.
                let _ = root.metadata();
                root
            };
            responding.extend(file_access::run(file_system, LOOKUP_TIMEOUT, look_up).await);
        }
        responding
    }

    /// Removes a container that its runtime is about to delete, once the runtime has done so. If
    /// the deletion takes longer than `SEARCH_INTERVAL`, a later search detects it.
    pub fn expect_deletion(self: &Arc<Self>, container: Arc<Container>) {
        let service = self.clone();
        tokio::spawn(async move {
            let deadline = Instant::now() + SEARCH_INTERVAL;
            while !container.has_vanished().await && Instant::now() < deadline {
                sleep(RUNTIME_POLL).await;
            }
            service.remove_if_vanished(&container).await
        });
    }

    /// Removes a vanished container. Returns whether this call removed it.
    async fn remove_if_vanished(&self, container: &Arc<Container>) -> bool {
        // If a verb holds the lock, that verb or the next search handles the deletion.
        let Some(container) = self.try_lock(container) else { return false };
        let vanished = container.has_vanished().await;
        if vanished {
            let record = container.record();
            let (container_id, pod) = (&record.key.id, &record.pod_id);
            tracing::info!(container = container_id, pod, "container was deleted without a verb");
            self.on_removed(&container).await;
        }
        vanished
    }
}

/// Returns the containers that seem to have vanished, or to have been started without a report.
/// Looks up all containers of a root in one blocking task, since there may be many.
async fn find_changed(visited: Vec<Arc<Container>>) -> Vec<Arc<Container>> {
    let mut by_root: HashMap<PathBuf, Vec<Arc<Container>>> = HashMap::new();
    for container in visited {
        by_root.entry(container.key().root.clone()).or_default().push(container);
    }
    let mut changed = Vec::new();
    for (root, mut containers) in by_root {
        let search = move || {
            containers.retain(|container| {
                container.has_vanished_now() || missed_start::may_have_started_now(container)
            });
            containers
        };
        let found = file_access::run(FileSystem::Directory(root), LOOKUP_TIMEOUT, search).await;
        changed.extend(found.unwrap_or_default());
    }
    changed
}

/// Searches that together visit all containers.
#[derive(Debug, Default)]
struct Search {
    /// Containers that this round has not visited.
    rest: Vec<Weak<Container>>,
    /// Number of containers that each search of this round visits.
    visits: usize,
}

impl Search {
    /// Returns the containers to visit: the next ones of the round, or all if `is_complete`.
    fn next(
        &mut self,
        is_complete: bool,
        all: impl FnOnce() -> Vec<Arc<Container>>,
    ) -> Vec<Arc<Container>> {
        if is_complete {
            self.rest.clear();
            return all();
        }
        if self.rest.is_empty() {
            self.rest = all().iter().map(Arc::downgrade).collect();
            self.visits = self.rest.len().div_ceil(SEARCHES_PER_ROUND).max(MIN_VISITS);
        }
        let first = self.rest.len().saturating_sub(self.visits);
        self.rest.drain(first..).filter_map(|container| container.upgrade()).collect()
    }
}

/// Watch of the runtime roots by inotify.
struct RootWatch {
    problems: Problems,
    removals: Option<Removals>,
    problem: Option<Problem>,
}

impl RootWatch {
    fn new(problems: Problems) -> Self {
        Self { problems, removals: None, problem: None }
    }

    /// Returns the containers whose directories were removed. Never returns while no root can be
    /// watched.
    async fn next(&mut self) -> Vec<ContainerKey> {
        loop {
            let Some(removals) = &mut self.removals else { std::future::pending().await };
            match removals.next().await {
                Ok(removed) => {
                    return removed
                        .into_iter()
                        .map(|(root, id)| ContainerKey { root, id })
                        .collect();
                }
                Err(_) => self.removals = None,
            }
        }
    }

    /// Watches these roots. Returns whether a root is newly watched.
    fn watch(&mut self, roots: Vec<PathBuf>) -> bool {
        match self.try_watch(roots) {
            Ok(is_new) => {
                self.problem = None;
                is_new
            }
            Err(error) => {
                let problem = format!(
                    "cannot watch the runtime roots by inotify: {error}; nrid may notice a minute \
                     late that a container was deleted without it; if a limit is reached, raise \
                     fs.inotify.max_user_instances or fs.inotify.max_user_watches"
                );
                self.problem = Some(self.problems.report(problem));
                false
            }
        }
    }

    fn try_watch(&mut self, roots: Vec<PathBuf>) -> io::Result<bool> {
        let mut is_new = false;
        for root in roots {
            let removals = match &mut self.removals {
                Some(removals) => removals,
                None => self.removals.insert(Removals::new()?),
            };
            if removals.is_watched(&root) {
                continue;
            }
            match removals.watch(&root) {
                Ok(()) => is_new = true,
                // The runtime has not created the root yet, or the root is in another mount
                // namespace.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_visit_all_containers_in_a_round() {
        let record = |n: usize| {
            let mut record: serde_json::Value =
                serde_json::from_str(crate::state::record::EXAMPLE).unwrap();
            record["key"]["id"] = n.to_string().into();
            Container::new(serde_json::from_value(record).unwrap())
        };
        let containers: Vec<_> = (0..9000).map(record).collect();
        let (mut search, mut visited) = (Search::default(), std::collections::HashSet::new());
        for _ in 0..SEARCHES_PER_ROUND {
            let part = search.next(false, || containers.clone());
            assert_eq!(part.len(), 9000 / SEARCHES_PER_ROUND);
            visited.extend(part.iter().map(|container| container.key().clone()));
        }
        assert_eq!(visited.len(), 9000);
        assert_eq!(search.next(true, || containers.clone()).len(), 9000);
    }
}

//! Evictions: stops containers at the request of a plugin. An eviction is in the container's record
//! until it ends, so that the next `nrid` continues it.

use crate::{
    audit::line_of,
    host::{clock::now, process::Process},
    plugins::{effects::Effects, requests::PluginRequests},
    state::{container::Container, record::Eviction, registry::Registry, status::ContainerStatus},
};
use nri_api::proto::ContainerEviction;
use nri_files::{AuditEvent, AuditLine};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Time between SIGTERM and SIGKILL; equals the default of `docker stop`.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Interval at which a process without a pidfd is checked for its exit.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl PluginRequests {
    /// Stops the containers in the background: SIGTERM, then SIGKILL after `GRACE_PERIOD`.
    pub fn evict_all(&self, effects: &Effects<'_>) {
        let mut unknown = Vec::new();
        for ContainerEviction { container_id: id, reason, .. } in effects.evictions {
            match self.resources.registry.by_nri_id(id) {
                Some(container) => self.evict(container, reason.clone(), effects.evictor(id)),
                None => unknown.push(id),
            }
        }
        if let Some(container) = unknown.first() {
            let skipped = unknown.len();
            tracing::warn!(container, skipped, "no such container, evictions skipped");
        }
    }

    /// Continues the evictions that the previous `nrid` had not completed.
    pub fn resume_evictions(&self) {
        for container in self.resources.registry.all() {
            if container.record().eviction.is_some() {
                tokio::spawn(perform(self.resources.registry.clone(), container, GRACE_PERIOD));
            }
        }
    }

    fn evict(&self, container: Arc<Container>, reason: String, plugin: String) {
        let record = container.record();
        let (id, pod) = (&record.key.id, &record.pod_id);
        if record.eviction.is_some() {
            tracing::debug!(container = id, pod, plugin, reason, "eviction already in progress");
            return;
        }
        tracing::info!(container = id, pod, plugin, reason, "evicting the container");
        let line =
            line_of(&container.record(), &self.resources.registry.pods, AuditEvent::Eviction);
        self.resources.audit.write(AuditLine { plugin, message: reason.clone(), ..line });
        let eviction = Some(Eviction { reason, term_sent: None });
        self.resources.registry.change(&container, |r| r.eviction = eviction);
        tokio::spawn(perform(self.resources.registry.clone(), container, GRACE_PERIOD));
    }
}

/// Performs an eviction, without the steps that the container's record shows as done.
async fn perform(registry: Arc<Registry>, container: Arc<Container>, grace: Duration) {
    let is_stopped = || container.status() == ContainerStatus::Stopped;
    let term_sent = container.record().eviction.as_ref().and_then(|eviction| eviction.term_sent);
    if !is_stopped() && term_sent.is_none() {
        send(&container, "TERM").await;
        registry.change(&container, |r| {
            if let Some(eviction) = &mut r.eviction {
                eviction.term_sent = Some(now());
            }
        });
    }
    if !is_stopped() {
        // The wall clock may have been set back.
        let elapsed = term_sent.map_or(0, |sent| now().saturating_sub(sent)).max(0);
        let left = grace.saturating_sub(Duration::from_nanos(elapsed.unsigned_abs()));
        if !has_exited_within(&container, left).await {
            send(&container, "KILL").await;
        }
    }
    registry.change(&container, |r| r.eviction = None);
}

/// Sends a signal through the container's runtime. A failure is logged: SIGKILL may succeed where
/// SIGTERM failed, and no caller waits for the result of an eviction.
async fn send(container: &Container, signal: &str) {
    let record = container.record();
    if let Err(error) = record.runtime.kill(&record.key.id, signal).await {
        let (container, pod) = (&record.key.id, &record.pod_id);
        tracing::warn!(container, pod, signal, %error, "signal of an eviction failed");
    }
}

/// Waits until the container's first process has exited, at most for `limit`.
async fn has_exited_within(container: &Container, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let record = container.record();
        if record.status == ContainerStatus::Stopped || record.process_has_ended() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match record.pid.map(Process::open) {
            Some(Ok(Some(process))) => drop(timeout(left, process.wait_for_exit()).await),
            // There is no pidfd, because the process is unknown or no descriptor is left.
            _ => sleep(left.min(POLL_INTERVAL)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        host::process::ProcessIdentity,
        resources::manager::ResourceManager,
        settings::load::Settings,
        state::{external_plugins::ExternalPlugins, record::Record, store::Store},
    };
    use nri_files::AUDIT_LOG;
    use serde_json::json;
    use std::{
        fs,
        path::Path,
        process::{Child, Command},
    };

    /// Loads the registry with the container of [`store`], as the next `nrid` does.
    fn load(dir: &Path) -> (Arc<Registry>, Arc<Container>) {
        let registry = Arc::new(Registry::load(Store::open(&dir.join("state")).unwrap()).0);
        let container = registry.all().pop().unwrap();
        (registry, container)
    }

    /// Stores the record of a running container. Its runtime writes the signals to the file
    /// `signals`.
    fn store(dir: &Path, process: Option<&Child>, eviction: Option<Eviction>) {
        let runtime = dir.join("runtime");
        let script = format!("#!/bin/sh\necho \"$3\" >>{}/signals\n", dir.display());
        // Written by another process: a child that another test forks meanwhile would keep the file
        // open for writing, and executing it would fail (ETXTBSY).
        fs::write(dir.join("source"), script).unwrap();
        let mut install = std::process::Command::new("install");
        install.arg("-m755").args([&dir.join("source"), &runtime]);
        assert!(install.status().unwrap().success());
        let mut record: Record = serde_json::from_value(json!({
            "key": {"root": "/run/runc", "id": "c"}, "pod_id": "p", "sandbox": false,
            "engine": {"engine": "docker", "cri": null},
            "runtime": {
                "path": runtime, "globals": [], "environment": ["PATH=/usr/bin:/bin"], "cwd": "/",
                "root": "/run/runc",
            },
            "bundle": {
                "dir": "/b", "name": "config.json", "identity": [1, 2], "original": null,
                "written": null, "link": null,
            },
            "container": {"id": "c"}, "owners": {}, "requested": {}, "effective": {},
            "status": "running", "pid": null, "start_time": null, "by_run": false, "hooked": false,
        }))
        .unwrap();
        record.pid = process.map(|child| child.id() as i32);
        record.start_time = record.pid.and_then(ProcessIdentity::of).map(|p| p.start_time);
        record.eviction = eviction;
        Registry::load(Store::open(&dir.join("state")).unwrap()).0.insert(record).unwrap();
    }

    fn signals(dir: &Path) -> String {
        fs::read_to_string(dir.join("signals")).unwrap_or_default().replace('\n', " ")
    }

    fn eviction(term_sent: Option<i64>) -> Option<Eviction> {
        Some(Eviction { reason: "r".into(), term_sent })
    }

    #[tokio::test]
    async fn the_next_nrid_continues_an_eviction_and_repeats_no_signal() {
        let long_ago = now() - Duration::from_secs(3600).as_nanos() as i64;
        for (eviction, expected) in [
            (eviction(None), "TERM KILL "),
            (eviction(Some(long_ago)), "KILL "),
            // The clock was set back after SIGTERM.
            (eviction(Some(i64::MAX)), "KILL "),
        ] {
            let dir = tempfile::tempdir().unwrap();
            store(dir.path(), None, eviction);
            let (registry, container) = load(dir.path());
            perform(registry, container, Duration::from_millis(1)).await;
            assert_eq!(signals(dir.path()), expected);
            // The eviction is no longer in the record.
            assert_eq!(load(dir.path()).1.record().eviction, None);
        }
    }

    #[tokio::test]
    async fn a_process_is_killed_if_the_runtime_cannot_send_sigterm() {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), None, eviction(None));
        let runtime = dir.path().join("runtime");
        let script = fs::read_to_string(&runtime).unwrap() + "[ \"$3\" = KILL ]\n";
        fs::write(&runtime, script).unwrap();
        let (registry, container) = load(dir.path());
        perform(registry, container, Duration::from_millis(1)).await;
        assert_eq!(signals(dir.path()), "TERM KILL ");
    }

    #[tokio::test]
    async fn a_process_without_a_pidfd_has_its_grace_period() {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), None, None);
        let (_, container) = load(dir.path());
        let (start, grace) = (Instant::now(), Duration::from_millis(50));
        assert!(!has_exited_within(&container, grace).await);
        assert!(start.elapsed() >= grace);
    }

    #[tokio::test]
    async fn an_eviction_is_recorded_before_the_first_signal_and_ends_with_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        store(dir.path(), Some(&child), None);
        let (registry, container) = load(dir.path());
        let config = nri_config::Config::default();
        let external = Arc::new(ExternalPlugins::load(dir.path()));
        let config_file = dir.path().join("config.toml");
        fs::write(&config_file, "").unwrap();
        let settings = Settings::load(Some(&config_file), Some(dir.path())).unwrap();
        let manager = ResourceManager::new(registry.clone(), Audit::start(&settings), &config);
        let requests = PluginRequests::new(Arc::new(manager), external);
        requests.evict(container.clone(), "r".into(), "10-a".into());
        assert_eq!(load(dir.path()).1.record().eviction, eviction(None));
        // A second request for the same container has no effect.
        requests.evict(container.clone(), "again".into(), "10-a".into());
        requests.resources.audit.flush(Duration::from_secs(10));
        let log = fs::read_to_string(dir.path().join(AUDIT_LOG)).unwrap();
        assert_eq!(log.matches(r#""event":"eviction","plugin":"10-a""#).count(), 1, "{log}");
        while container.record().eviction.as_ref().is_some_and(|e| e.term_sent.is_none()) {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(
            load(dir.path()).1.record().eviction.as_ref().is_some_and(|e| e.term_sent.is_some())
        );
        child.kill().unwrap();
        child.wait().unwrap();
        while container.record().eviction.is_some() {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(signals(dir.path()), "TERM ");
    }
}

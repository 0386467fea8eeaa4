//! The plugin: a line per event, and its objects as YAML.

use crate::settings::LoggerSettings;
use nri_plugin::{
    Adjustment, Changes, Configured, Creation, EventMask, Plugin, Reply, Session, Update,
    dump::{DumpError, json, json_list, yaml},
    logging::write_to,
    proto::*,
};
use serde_json::Value;
use std::path::Path;

/// Logs events, and adjusts containers as its settings say.
pub(crate) struct EventLogger {
    settings: LoggerSettings,
    configured: Configured<LoggerSettings>,
}

/// An object of an event, with its name.
type Tagged = (&'static str, Result<Value, DumpError>);

impl EventLogger {
    /// Creates the plugin with settings of the command line, and opens its log file.
    pub(crate) fn new(settings: LoggerSettings) -> Reply<Self> {
        settings.event_mask()?;
        open(settings.log_file.as_deref())?;
        Ok(Self { configured: Configured::new(settings.clone()), settings })
    }

    /// Returns the value of the variables and annotations that the plugin sets.
    fn value() -> String {
        format!("logger-pid-{}", std::process::id())
    }
}

fn open(path: Option<&Path>) -> Reply<()> {
    match path {
        Some(path) if !path.as_os_str().is_empty() => write_to(path)
            .map_err(|error| format!("failed to open log file {}: {error}", path.display()).into()),
        _ => Ok(()),
    }
}

fn is_set(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Logs an event with its objects.
fn log(event: &str, objects: impl IntoIterator<Item = Tagged>) {
    for (tag, object) in objects {
        match object.and_then(|object| yaml(&object)) {
            Ok(text) => {
                tracing::info!("{event}: {tag}:");
                text.trim().lines().for_each(|line| tracing::info!("{event}:    {line}"));
            }
            Err(error) => tracing::info!("{event}: {tag}: failed to dump object: {error}"),
        }
    }
}

fn log_container(event: &str, pod: &PodSandbox, container: &Container) -> Reply<()> {
    log(event, [("pod", json(pod)), ("container", json(container))]);
    Ok(())
}

fn log_pod(event: &str, pod: &PodSandbox) -> Reply<()> {
    log(event, [("pod", json(pod))]);
    Ok(())
}

impl Plugin for EventLogger {
    fn events(&self) -> EventMask {
        // Refused by `configure` and `new` if invalid.
        self.configured.get().event_mask().unwrap_or(EventMask::ALL)
    }

    async fn configure(&self, session: &Session, config: &str) -> Reply<()> {
        let runtime = session.runtime().cloned().unwrap_or_default();
        tracing::info!(
            "got configuration data: {config:?} from runtime {} {}",
            runtime.name,
            runtime.version
        );
        let settings = self.settings.configured(config)?;
        settings.event_mask()?;
        if settings.log_file != self.configured.get().log_file {
            open(settings.log_file.as_deref())?;
        }
        self.configured.set(settings);
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        log("Synchronize", [("pods", json_list(&pods)), ("containers", json_list(&containers))]);
        Ok(Vec::new())
    }

    async fn shutdown(&self, _: &Session) {
        tracing::info!("Shutdown");
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        log_pod("RunPodSandbox", &pod)
    }

    async fn update_pod_sandbox(
        &self,
        _: &Session,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        let objects = [
            ("pod", json(&pod)),
            ("overHeadResources", json(&overhead)),
            ("resources", json(&resources)),
        ];
        log("UpdatePodSandbox", objects);
        Ok(())
    }

    async fn post_update_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        log_pod("PostUpdatePodSandbox", &pod)
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        log_pod("StopPodSandbox", &pod)
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        log_pod("RemovePodSandbox", &pod)
    }

    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        log_container("CreateContainer", &pod, &container)?;
        let settings = self.configured.get();
        let mut adjustment = Adjustment::new();
        let (add, set) = (is_set(&settings.add_annotation), is_set(&settings.set_annotation));
        if let Some(key) = add.filter(|key| Some(*key) != set) {
            adjustment.add_annotation(key, Self::value());
        }
        if let Some(key) = set {
            adjustment.override_annotation(key, Self::value());
        }
        let (add, set) = (is_set(&settings.add_env), is_set(&settings.set_env));
        if let Some(name) = add.filter(|name| Some(*name) != set) {
            adjustment.add_env(name, Self::value());
        }
        if let Some(name) = set {
            adjustment.override_env(name, Self::value());
        }
        Ok(adjustment.into())
    }

    async fn post_create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        log_container("PostCreateContainer", &pod, &container)
    }

    async fn start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        log_container("StartContainer", &pod, &container)
    }

    async fn post_start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        log_container("PostStartContainer", &pod, &container)
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        let objects =
            [("pod", json(&pod)), ("container", json(&container)), ("resources", json(&resources))];
        log("UpdateContainer", objects);
        Ok(Changes::default())
    }

    async fn post_update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        log_container("PostUpdateContainer", &pod, &container)
    }

    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        log_container("StopContainer", &pod, &container)?;
        Ok(Vec::new())
    }

    async fn remove_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        log_container("RemoveContainer", &pod, &container)
    }

    async fn validate_container_adjustment(
        &self,
        _: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        log("ValidateContainerAdjustment", [("request", json(&request))]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, env, pod};

    #[test]
    fn a_container_gets_annotations_and_variables() {
        let settings = LoggerSettings {
            add_annotation: Some("a".into()),
            set_annotation: Some("s".into()),
            add_env: Some("A".into()),
            ..Default::default()
        };
        let runtime =
            InProcessRuntime::start(EventLogger::new(settings).unwrap(), "setEnv: A").unwrap();
        let pod = pod("p");
        let reply = runtime.create_container(&pod, &container(&pod, "c")).unwrap();
        let value = EventLogger::value();
        let annotations: Vec<_> = reply.adjust.annotations.iter().collect();
        assert_eq!(reply.adjust.annotations["a"], value);
        assert_eq!(reply.adjust.annotations["s"], value);
        assert!(reply.adjust.annotations.contains_key("-s"), "{annotations:?}");
        let names: Vec<_> = reply.adjust.env.iter().map(|e| e.key.as_str()).collect();
        assert_eq!(names, ["-A", "A"]);
        assert_eq!(env(&reply, "A"), Some(value.as_str()));
    }

    #[test]
    fn a_configuration_selects_events_and_is_refused_if_invalid() {
        let logger = || EventLogger::new(LoggerSettings::default()).unwrap();
        let start = |config: &str| InProcessRuntime::start(logger(), config);
        assert_eq!(start("").unwrap().events(), EventMask::ALL);
        let events = start("events: [StopContainer]").unwrap().events();
        assert_eq!(events, EventMask::parse("StopContainer").unwrap());
        for (config, error) in [
            ("events: [colour]", "unknown event \"colour\""),
            ("events: 7", "must be a list"),
            ("logFile: /dev/null/log", "failed to open log file /dev/null/log"),
        ] {
            let refused = start(config).err().unwrap().0;
            assert!(refused.contains(error), "{refused}");
        }
    }
}

//! The plugin at one of its indices.

use crate::{
    chain::{Chain, Received},
    difference::{changed_lines, changes},
    form::Form,
};
use nri_plugin::{
    Changes, Creation, Plugin, Reply, Session, Update,
    dump::{json, json_list, yaml},
    proto::*,
};
use serde_json::Value;
use std::sync::Arc;

/// The plugin at one index.
pub(crate) struct Differ {
    position: usize,
    index: String,
    chain: Arc<Chain>,
    form: Form,
}

impl Differ {
    /// Creates the plugin for the index at this position of the chain.
    pub(crate) fn new(position: usize, index: &str, chain: Arc<Chain>, form: Form) -> Self {
        Self { position, index: index.to_owned(), chain, form }
    }

    /// Compares an event with what the index before this one has received, and logs differences.
    fn compare(&self, event: Event, pod: &PodSandbox, container: Option<&Container>) -> Reply<()> {
        let id = container.map_or(&pod.id, |container| &container.id);
        let received =
            Received { pod: json(pod)?, container: container.map(|c| json(c)).transpose()? };
        let name = event_name(event);
        let before = self.chain.exchange(self.position, event, id, &received);
        match before {
            Some(before) => {
                self.log_changes(&name, "pod", &before.pod, &received.pod);
                if let (Some(before), Some(container)) = (&before.container, &received.container) {
                    self.log_changes(&name, "container", before, container);
                }
            }
            None if self.position > 0 => {
                // The runtime connects the indices one after the other.
                tracing::debug!("[{}] {name}: not received at the index before", self.index);
            }
            None if self.form.verbose_level > 0 => {
                self.dump(&name, "pod", &received.pod);
                received.container.iter().for_each(|value| self.dump(&name, "container", value));
            }
            None => {}
        }
        Ok(())
    }

    fn log_changes(&self, event: &str, object: &str, from: &Value, to: &Value) {
        let index = &self.index;
        if self.form.verbose_level > 1 {
            tracing::info!("[{index}] Original values for {object}");
            self.dump(event, object, from);
        }
        let lines = if self.form.yaml {
            match (yaml(from), yaml(to)) {
                (Ok(from), Ok(to)) => changed_lines(&from, &to),
                (Err(error), _) | (_, Err(error)) => vec![error.to_string()],
            }
        } else {
            changes(from, to)
        };
        if lines.is_empty() {
            tracing::info!("[{index}] {event}: {object}: <no changes>");
            return;
        }
        lines.iter().for_each(|line| tracing::info!("[{index}] {event}: {object}: {line}"));
        if self.form.verbose_level > 1 {
            tracing::info!("[{index}] Values after changes for {object}");
            self.dump(event, object, to);
        }
    }

    fn dump(&self, event: &str, object: &str, value: &Value) {
        let index = &self.index;
        match yaml(value) {
            Ok(text) => {
                tracing::info!("[{index}] {event}: {object}:");
                text.trim().lines().for_each(|line| tracing::info!("[{index}] {event}:    {line}"));
            }
            Err(error) => tracing::info!("[{index}] {event}: {object}: {error}"),
        }
    }
}

/// Returns the name of an event as that of its call: `CreateContainer`.
fn event_name(event: Event) -> String {
    let words = format!("{event:?}");
    let words = words.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{first}{}", rest.to_lowercase())
    });
    words.collect()
}

impl Plugin for Differ {
    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        if self.form.verbose_level > 2 {
            self.dump("Synchronize", "pods", &json_list(&pods)?);
            self.dump("Synchronize", "containers", &json_list(&containers)?);
        }
        Ok(Vec::new())
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.compare(Event::RUN_POD_SANDBOX, &pod, None)
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.compare(Event::STOP_POD_SANDBOX, &pod, None)
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.compare(Event::REMOVE_POD_SANDBOX, &pod, None)
    }

    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        self.compare(Event::CREATE_CONTAINER, &pod, Some(&container))?;
        Ok(Creation::default())
    }

    async fn post_create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.compare(Event::POST_CREATE_CONTAINER, &pod, Some(&container))
    }

    async fn start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.compare(Event::START_CONTAINER, &pod, Some(&container))
    }

    async fn post_start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.compare(Event::POST_START_CONTAINER, &pod, Some(&container))
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        _: LinuxResources,
    ) -> Reply<Changes> {
        self.compare(Event::UPDATE_CONTAINER, &pod, Some(&container))?;
        Ok(Changes::default())
    }

    async fn post_update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.compare(Event::POST_UPDATE_CONTAINER, &pod, Some(&container))
    }

    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        self.compare(Event::STOP_CONTAINER, &pod, Some(&container))?;
        Ok(Vec::new())
    }

    async fn remove_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.compare(Event::REMOVE_CONTAINER, &pod, Some(&container))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    #[test]
    fn both_indices_take_part_in_an_event() {
        let chain = Arc::new(Chain::new(2));
        let start = |position: usize, index: &str| {
            let plugin = Differ::new(position, index, chain.clone(), Form::default());
            InProcessRuntime::start(plugin, "").unwrap()
        };
        let (first, last) = (start(0, "00"), start(1, "99"));
        let pod = pod("p");
        let container = container(&pod, "c");
        let reply = first.create_container(&pod, &container).unwrap();
        assert_eq!(reply.adjust.get_or_default(), &ContainerAdjustment::new());
        let json = json(&container).unwrap();
        let expected = Received { pod: self::json(&pod).unwrap(), container: Some(json) };
        let event = Event::CREATE_CONTAINER;
        let before = chain.exchange(1, event, &container.id, &expected);
        assert_eq!(before, Some(expected));
        first.create_container(&pod, &container).unwrap();
        last.create_container(&pod, &container).unwrap();
        let other = Received { pod: Value::Null, container: None };
        assert_eq!(chain.exchange(1, event, &container.id, &other), None);
    }

    #[test]
    fn events_have_the_names_of_their_calls() {
        assert_eq!(event_name(Event::POST_UPDATE_CONTAINER), "PostUpdateContainer");
        assert_eq!(event_name(Event::RUN_POD_SANDBOX), "RunPodSandbox");
    }
}

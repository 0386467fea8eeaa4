//! The runtime of the containers, without containers, and the process of its only plugin.

use crate::{
    figures::{Containers, Figures},
    history::Event,
};
use async_trait::async_trait;
use nri_runtime::{
    ContainerInfo, Error, HandlerResult, Nri, Propagation, RuntimeConfig, RuntimeHandler, Snapshot,
    proto::{LinuxPodSandbox, PodSandbox},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time limit of the start of a plugin and of each call: long, so that none ends on a loaded
/// machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Performs all updates: what a container has is in the records of [`Nri`].
struct Handler;

#[async_trait]
impl RuntimeHandler for Handler {
    async fn update_container(&self, _: &str, _: &Value) -> HandlerResult {
        Ok(())
    }

    /// The policies of nri-plugins mount a directory of their state.
    fn mount_propagation(&self, _: &str) -> Option<Propagation> {
        Some(Propagation::Shared)
    }
}

/// A plugin that runs, with containers.
pub(crate) struct RunningPlugin {
    nri: Nri,
    process: Process,
    dir: TempDir,
}

/// A process, which ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl RunningPlugin {
    pub(crate) async fn start(
        program: &Path,
        arguments: &[String],
        dir: TempDir,
    ) -> Result<Self, String> {
        let mut config = RuntimeConfig::new("placement", "1");
        config.plugin_dir = "".into();
        config.socket = Some(dir.path().join("nri.sock"));
        (config.registration_timeout, config.request_timeout) = (TIMEOUT, TIMEOUT);
        let nri = Nri::start(config, Handler, Snapshot::default()).await.unwrap();
        let output = fs::File::create(dir.path().join("output")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let mut running = Self { nri, process: Process(command.spawn().unwrap()), dir };
        let end = Instant::now() + TIMEOUT;
        while !running.is_active() {
            let has_ended = running.process.0.try_wait().unwrap().is_some();
            if has_ended || Instant::now() > end {
                return Err(running.failure());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(running)
    }

    fn is_active(&self) -> bool {
        self.nri.plugins().iter().any(|plugin| plugin.active)
    }

    /// Returns why the plugin does not run: a panic, else what it has written last.
    fn failure(&self) -> String {
        let output = fs::read_to_string(self.dir.path().join("output")).unwrap();
        let panic = output.lines().find(|line| line.starts_with("panic"));
        let line = panic.or(output.lines().last()).unwrap_or("no output");
        let text: String = line.chars().take(200).collect();
        format!("ended: {text}")
    }

    /// Ends the plugin.
    pub(crate) async fn end(self) {
        self.nri.shutdown().await;
    }

    /// Lets an event happen.
    pub(crate) async fn run(
        &self,
        number: usize,
        event: &Event,
        figures: &mut Figures<'_>,
    ) -> Result<(), String> {
        let before = self.containers();
        match *event {
            Event::Create(size) => {
                if let Err(error) = self.create(number, size).await {
                    figures.refused(size, &before, &error.to_string());
                }
            }
            Event::Stop(number) if before.contains_key(&number) => self.stop(number).await,
            Event::Stop(_) => {} // it was refused
        }
        if !self.is_active() {
            return Err(self.failure());
        }
        figures.add(&before, &self.containers());
        Ok(())
    }

    /// Creates a container in a pod of its own. It says the same in the words of each plugin:
    /// annotations of `topology` and `balloons`, and for nri-plugins CPU shares, in a pod with the
    /// guaranteed class of service, or none, in a pod with the class "best effort".
    async fn create(&self, number: usize, size: usize) -> Result<(), Error> {
        let id = format!("c{number:05}");
        let mut pod = PodSandbox {
            id: format!("pod-{id}"),
            name: id.clone(),
            uid: format!("uid-{id}"),
            namespace: "default".to_owned(),
            ..PodSandbox::default()
        };
        let mut resources = json!({});
        let mut annotations = HashMap::new();
        if size > 0 {
            annotations.insert("nri-topology/cpus".to_owned(), size.to_string());
            let balloon = "balloon.balloons.resource-policy.nri.io".to_owned();
            annotations.insert(balloon, "exclusive".to_owned());
            let cpu = json!({"shares": size * 1024, "quota": size * 100_000, "period": 100_000});
            resources = json!({ "cpu": cpu });
        } else {
            let parent = format!("/kubepods/besteffort/{}", pod.id);
            let linux = LinuxPodSandbox { cgroup_parent: parent, ..LinuxPodSandbox::default() };
            pod.linux = Some(linux).into();
        }
        pod.annotations = annotations;
        let info = ContainerInfo {
            id: id.clone(),
            pod_sandbox_id: pod.id.clone(),
            name: id.clone(),
            ..ContainerInfo::default()
        };
        let bundle = json!({
            "ociVersion": "1.0.2",
            "process": { "args": ["sleep"], "cwd": "/" },
            "root": { "path": "rootfs" },
            "linux": { "resources": resources },
        });
        let pod_id = pod.id.clone();
        self.nri.run_pod_sandbox(pod).await?;
        if let Err(error) = self.nri.create_container(&info, bundle.to_string().as_bytes()).await {
            self.remove_pod(&pod_id).await;
            return Err(error);
        }
        self.nri.post_create_container(&id)?;
        self.nri.start_container(&id).await?;
        self.nri.post_start_container(&id)
    }

    async fn stop(&self, number: usize) {
        let id = format!("c{number:05}");
        self.nri.stop_container(&id).await.unwrap();
        self.nri.remove_container(&id).await.unwrap();
        self.remove_pod(&format!("pod-{id}")).await;
    }

    async fn remove_pod(&self, id: &str) {
        self.nri.stop_pod_sandbox(id).await.unwrap();
        self.nri.remove_pod_sandbox(id).await.unwrap();
    }

    /// Returns what the containers have.
    fn containers(&self) -> Containers {
        let containers = self.nri.snapshot().containers;
        let described = containers.into_iter().map(|container| {
            let cpu = &container.linux.resources.cpu;
            let quota = cpu.quota.as_ref().map_or(0, |quota| quota.value);
            let number = container.id.trim_start_matches('c').parse().unwrap();
            (number, (quota as usize / 100_000, cpu.cpus.parse().unwrap()))
        });
        described.collect()
    }
}

//! An NRI plugin that prints every event but validation as a line of JSON, `{"event": ...,
//! "request": ...}`, with the request in protobuf's JSON mapping.
//!
//! ```text
//! logger [--idx NN] [--name NAME] [--socket PATH]
//! ```
//! The defaults are `--idx 00` and `--name logger`. If a runtime launches the plugin, the runtime
//! sets index and name.
#![allow(clippy::print_stdout)] // the output of the program

use nri_plugin::{
    Changes, Creation, EventMask, Failure, Plugin, Reply, Session, Stub, async_trait, proto::*,
};
use protobuf::MessageDyn;
use serde_json::{Value, json};

struct Logger;

fn print(event: &str, parts: &[(&str, &dyn MessageDyn)]) -> Reply<()> {
    let mut request = serde_json::Map::new();
    for (name, message) in parts {
        request.insert((*name).to_owned(), value(*message)?);
    }
    println!("{}", json!({ "event": event, "request": request }));
    Ok(())
}

fn value(message: &dyn MessageDyn) -> Reply<Value> {
    Ok(serde_json::from_str(&protobuf_json_mapping::print_to_string(message)?)?)
}

#[async_trait]
impl Plugin for Logger {
    /// Subscribes to all events but validation, which is the meaning of an empty set.
    fn events(&self) -> EventMask {
        EventMask::NONE
    }

    async fn configure(&self, session: &Session, config: &str) -> Reply<()> {
        let runtime = session.runtime().cloned().unwrap_or_default();
        let timeout = runtime.request_timeout.as_millis() as u64;
        let about = json!({ "config": config, "runtime": runtime.name, "version": runtime.version,
            "nri": runtime.nri_version, "requestTimeoutMs": timeout });
        println!("{}", json!({ "event": "Configure", "request": about }));
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<ContainerUpdate>> {
        let pods = pods.iter().map(|p| value(p)).collect::<Reply<Vec<_>>>()?;
        let containers = containers.iter().map(|c| value(c)).collect::<Reply<Vec<_>>>()?;
        println!(
            "{}",
            json!({ "event": "Synchronize", "request": { "pods": pods, "containers": containers } })
        );
        Ok(Vec::new())
    }

    async fn shutdown(&self, _: &Session) {
        print("Shutdown", &[]).ok(); // the runtime is closing the connection
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        print("RunPodSandbox", &[("pod", &pod)])
    }

    async fn update_pod_sandbox(
        &self,
        _: &Session,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        print(
            "UpdatePodSandbox",
            &[("pod", &pod), ("overhead", &overhead), ("resources", &resources)],
        )
    }

    async fn post_update_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        print("PostUpdatePodSandbox", &[("pod", &pod)])
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        print("StopPodSandbox", &[("pod", &pod)])
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        print("RemovePodSandbox", &[("pod", &pod)])
    }

    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        print("CreateContainer", &[("pod", &pod), ("container", &container)])?;
        Ok(Creation::default())
    }

    async fn post_create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        print("PostCreateContainer", &[("pod", &pod), ("container", &container)])
    }

    async fn start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        print("StartContainer", &[("pod", &pod), ("container", &container)])
    }

    async fn post_start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        print("PostStartContainer", &[("pod", &pod), ("container", &container)])
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        print(
            "UpdateContainer",
            &[("pod", &pod), ("container", &container), ("resources", &resources)],
        )?;
        Ok(Changes::default())
    }

    async fn post_update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        print("PostUpdateContainer", &[("pod", &pod), ("container", &container)])
    }

    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<ContainerUpdate>> {
        print("StopContainer", &[("pod", &pod), ("container", &container)])?;
        Ok(Vec::new())
    }

    async fn remove_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        print("RemoveContainer", &[("pod", &pod), ("container", &container)])
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(e) = run().await {
        let mut text = format!("logger: {e}");
        let mut source = e.source();
        while let Some(e) = source {
            text += &format!(": {e}");
            source = e.source();
        }
        eprintln!("{text}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Failure> {
    let mut stub = Stub::builder(Logger).name("logger").index("00");
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        if matches!(option.as_str(), "-h" | "--help") {
            println!("An NRI plugin that prints every event but validation as a line of JSON.");
            println!("Usage: logger [--idx NN] [--name NAME] [--socket PATH]");
            return Ok(());
        }
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        stub = match option.as_str() {
            "--idx" => stub.index(value),
            "--name" => stub.name(value),
            "--socket" => stub.socket_path(value),
            _ => return Err(format!("unknown option {option}").into()),
        };
    }
    Ok(stub.connect().await?.run().await?)
}

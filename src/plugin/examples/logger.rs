//! An NRI plugin that prints every event but validation as a line of JSON, `{"event": ...,
//! "request": ...}`, with the request in protobuf's JSON mapping.
//!
//! ```text
//! logger [--idx NN] [--name NAME] [--socket PATH]
//! ```
//! The defaults are `--idx 00` and `--name logger`. If a runtime launches the plugin, the runtime
//! sets index and name. It ends with its session.
#![allow(clippy::print_stdout)] // the output of the program

use nri_plugin::{Changes, Creation, Plugin, Reply, Session, Stub, Update, proto::*};
use protobuf::MessageDyn;
use serde_json::{Value, json};
use std::process::ExitCode;

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

impl Plugin for Logger {
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
    ) -> Reply<Vec<Update>> {
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
    ) -> Reply<Vec<Update>> {
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

fn main() -> ExitCode {
    let mut plugin = Stub::builder(Logger).name("logger").index("00").once();
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next();
        plugin = match (option.as_str(), value) {
            ("-h" | "--help", _) => {
                println!("An NRI plugin that prints every event but validation as a line of JSON.");
                println!("Usage: logger [--idx NN] [--name NAME] [--socket PATH]");
                return ExitCode::SUCCESS;
            }
            ("--idx", Some(value)) => plugin.index(value),
            ("--name", Some(value)) => plugin.name(value),
            ("--socket", Some(value)) => plugin.socket_path(value),
            _ => {
                eprintln!("logger: {option} is unknown or needs a value");
                return ExitCode::FAILURE;
            }
        };
    }
    plugin.main()
}

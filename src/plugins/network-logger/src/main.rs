//! An NRI plugin that logs the network namespace and the addresses of pods, as the plugin
//! `network-logger` of containerd/nri does.

use nri_plugin::{
    flags::{Flags, parse},
    prelude::*,
};
use std::process::ExitCode;

/// NRI plugin that logs addresses and network namespaces of pods.
#[derive(clap::Parser)]
#[command(name = "network-logger", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

/// Logs pods that start, stop, and are removed.
struct NetworkLogger;

/// Returns the path of the pod's network namespace.
fn network_namespace(pod: &PodSandbox) -> &str {
    let mut namespaces = pod.linux.namespaces.iter();
    namespaces.find(|n| n.type_ == "network").map_or("<host-network>", |n| n.path.as_str())
}

/// Returns the pod and its addresses as a text.
fn described(pod: &PodSandbox, with_namespace: bool) -> String {
    let namespace = if with_namespace {
        format!(" namespace={}", network_namespace(pod))
    } else {
        String::new()
    };
    format!("pod {}/{}:{namespace} ips=[{}]", pod.namespace, pod.name, pod.ips.join(" "))
}

impl Plugin for NetworkLogger {
    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        let (pod_count, container_count) = (pods.len(), containers.len());
        tracing::info!(
            "Synchronized state with the runtime ({pod_count} pods, {container_count} containers)"
        );
        pods.iter().for_each(|pod| tracing::info!("{}", described(pod, true)));
        Ok(Vec::new())
    }

    async fn shutdown(&self, _: &Session) {
        tracing::info!("Runtime shutting down...");
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        tracing::info!("Started {}", described(&pod, true));
        Ok(())
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        tracing::info!("Stopped {}", described(&pod, false));
        Ok(())
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        tracing::info!("Removed {}", described(&pod, false));
        Ok(())
    }
}

fn main() -> ExitCode {
    let line: CommandLine = parse();
    line.plugin.builder(NetworkLogger).main()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::{
        proto::LinuxNamespace,
        testing::{InProcessRuntime, pod},
    };

    #[test]
    fn a_line_has_namespace_and_addresses() {
        let mut pod = pod("shop");
        assert_eq!(described(&pod, true), "pod default/shop: namespace=<host-network> ips=[]");
        pod.ips = vec!["192.0.2.1".into(), "2001:db8::1".into()];
        let (type_, path) = ("network".to_owned(), "/run/netns/shop".to_owned());
        let namespace = LinuxNamespace { type_, path, ..Default::default() };
        pod.linux.mut_or_insert_default().namespaces.push(namespace);
        let addresses = "ips=[192.0.2.1 2001:db8::1]";
        assert_eq!(
            described(&pod, true),
            format!("pod default/shop: namespace=/run/netns/shop {addresses}")
        );
        assert_eq!(described(&pod, false), format!("pod default/shop: {addresses}"));
    }

    #[test]
    fn it_subscribes_to_pods() {
        let runtime = InProcessRuntime::start(NetworkLogger, "").unwrap();
        let events = [Event::RUN_POD_SANDBOX, Event::STOP_POD_SANDBOX, Event::REMOVE_POD_SANDBOX];
        assert_eq!(runtime.events(), EventMask::from_iter(events));
        runtime.notify(Event::RUN_POD_SANDBOX, &pod("shop"), None).unwrap();
    }
}

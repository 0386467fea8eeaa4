//! The plugin: moves network devices into pods that start, and back from pods that stop.

use crate::{
    annotation::devices,
    namespace::Namespace,
    transfer::{inject_all, release},
};
use nri_plugin::prelude::*;
use std::{io, path::Path};

/// Moves network devices of the namespace in which the plugin runs.
pub(crate) struct NetworkDeviceInjector;

/// A pod cannot have network devices.
#[derive(Debug, thiserror::Error)]
enum PodError {
    #[error("pod {0} has no network namespace of its own: network devices cannot be injected")]
    HostNetwork(String),
    #[error("network namespace {path}: {source}")]
    Namespace { path: String, source: io::Error },
}

impl Plugin for NetworkDeviceInjector {
    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        let devices = devices(&pod.annotations)?;
        if devices.is_empty() {
            return Ok(());
        }
        let path = namespace(&pod).ok_or_else(|| PodError::HostNetwork(pod.name.clone()))?;
        let (host, in_pod) = (open("/proc/thread-self/ns/net")?, open(path)?);
        inject_all(&host, &in_pod, &devices)?;
        for device in devices {
            tracing::info!("{}: injected {} as {}", pod.name, device.host_name, device.name);
        }
        Ok(())
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        let devices = devices(&pod.annotations)?;
        let Some(path) = namespace(&pod) else { return Ok(()) };
        if devices.is_empty() {
            return Ok(());
        }
        let (host, in_pod) = (open("/proc/thread-self/ns/net")?, open(path)?);
        for device in devices {
            match release(&host, &in_pod, &device) {
                Ok(()) => tracing::info!("{}: released {}", pod.name, device.host_name),
                // The others are released, and the pod is stopped whatever the reply is.
                Err(error) => tracing::error!("{}: {error}", pod.name),
            }
        }
        Ok(())
    }
}

/// Path of the pod's network namespace; `None` if it uses that of the host, or if the runtime
/// does not know the namespace.
fn namespace(pod: &PodSandbox) -> Option<&str> {
    let namespaces = &pod.linux.as_ref()?.namespaces;
    let network = namespaces.iter().find(|namespace| namespace.type_ == "network")?;
    Some(network.path.as_str()).filter(|path| !path.is_empty())
}

fn open(path: &str) -> Result<Namespace, PodError> {
    let failed = |source| PodError::Namespace { path: path.to_owned(), source };
    Namespace::open(Path::new(path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::tests::as_root;
    use nri_plugin::{
        proto::{LinuxNamespace, LinuxPodSandbox},
        testing::{InProcessRuntime, pod},
    };

    fn pod_with(annotation: &str, path: &str) -> PodSandbox {
        let mut pod = pod("shop");
        pod.annotations.insert("netdevices.noderesource.dev".into(), annotation.into());
        let network =
            LinuxNamespace { type_: "network".into(), path: path.into(), ..Default::default() };
        let linux = LinuxPodSandbox { namespaces: vec![network], ..Default::default() };
        pod.linux = Some(linux).into();
        pod
    }

    #[test]
    fn pods_without_devices_or_namespace() {
        as_root("plugin::tests::pods_without_devices_or_namespace", || {
            let runtime = InProcessRuntime::start(NetworkDeviceInjector, "").unwrap();
            let run = |pod: &PodSandbox| runtime.notify(Event::RUN_POD_SANDBOX, pod, None);
            let stop = |pod: &PodSandbox| runtime.notify(Event::STOP_POD_SANDBOX, pod, None);
            run(&pod("shop")).unwrap();
            run(&pod_with("[]", "")).unwrap();
            let on_host = pod_with("- name: eth7", "");
            let error = run(&on_host).unwrap_err().to_string();
            assert!(error.starts_with("pod shop has no network namespace of its own"), "{error}");
            stop(&on_host).unwrap();
            let error = run(&pod_with("- name: eth7", "/no/such/ns")).unwrap_err().to_string();
            assert!(error.starts_with("network namespace /no/such/ns: "), "{error}");
            assert!(run(&pod_with("- name: ''", "/x")).unwrap_err().0.contains("is no name"));
        });
    }

    #[test]
    fn devices_are_injected_and_released() {
        as_root("plugin::tests::devices_are_injected_and_released", || {
            let (host, in_pod) = (Namespace::create(), Namespace::create());
            host.add_device("host7");
            let pod = pod_with("- {name: host7, new_name: pod7}", &in_pod.path());
            host.enter(|| {
                let runtime = InProcessRuntime::start(NetworkDeviceInjector, "").unwrap();
                runtime.notify(Event::RUN_POD_SANDBOX, &pod, None).unwrap();
                assert!(in_pod.seen("pod7").is_some_and(|seen| seen.is_up));
                runtime.notify(Event::STOP_POD_SANDBOX, &pod, None).unwrap();
            });
            assert!(host.seen("host7").is_some());
        });
    }
}

//! The process of a pod in messages to plugins, and what exists only with it: the cgroup, and the
//! path of a network namespace that the low-level runtime creates.

use nri_api::proto::PodSandbox;

/// Sets the process of a pod to that of the container that holds the pod's namespaces, and the
/// pod's cgroup to that of the container. A network namespace without a path gets that of the
/// process: an engine like Docker lets the runtime create it, and CRI always has a path.
pub(super) fn set(pod: &mut PodSandbox, pid: u32, cgroup: &str) {
    clear(pod);
    pod.pid = pid;
    let linux = pod.linux.mut_or_insert_default();
    cgroup.clone_into(&mut linux.cgroups_path);
    let mut namespaces = linux.namespaces.iter_mut();
    let network = namespaces.find(|n| n.type_ == "network" && n.path.is_empty());
    if let Some(network) = network.filter(|_| pid != 0) {
        network.path = network_path(pid);
    }
}

/// Clears the process of a pod, and the path that ends with it.
pub(super) fn clear(pod: &mut PodSandbox) {
    let own = network_path(pod.pid);
    pod.pid = 0;
    let namespaces = pod.linux.as_mut().map(|linux| &mut linux.namespaces);
    for namespace in namespaces.into_iter().flatten().filter(|n| n.path == own) {
        namespace.path.clear();
    }
}

fn network_path(pid: u32) -> String {
    format!("/proc/{pid}/ns/net")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::{LinuxNamespace, LinuxPodSandbox};

    fn pod(namespaces: &[(&str, &str)]) -> PodSandbox {
        let namespace = |(kind, path): &(&str, &str)| LinuxNamespace {
            type_: (*kind).to_owned(),
            path: (*path).to_owned(),
            ..LinuxNamespace::default()
        };
        let namespaces = namespaces.iter().map(namespace).collect();
        let linux = LinuxPodSandbox { namespaces, ..LinuxPodSandbox::default() };
        PodSandbox { linux: Some(linux).into(), ..PodSandbox::default() }
    }

    fn facts(pod: &PodSandbox) -> (u32, &str, Vec<&str>) {
        let paths = pod.linux.namespaces.iter().map(|n| n.path.as_str()).collect();
        (pod.pid, &pod.linux.cgroups_path, paths)
    }

    #[test]
    fn a_process_brings_cgroup_and_network_and_takes_the_network_with_it() {
        let mut changed = pod(&[("pid", ""), ("network", "")]);
        set(&mut changed, 7, "/docker/c1");
        assert_eq!(facts(&changed), (7, "/docker/c1", vec!["", "/proc/7/ns/net"]));
        set(&mut changed, 8, "/docker/c1");
        assert_eq!(facts(&changed), (8, "/docker/c1", vec!["", "/proc/8/ns/net"]));
        clear(&mut changed);
        assert_eq!(facts(&changed), (0, "/docker/c1", vec!["", ""]));
    }

    #[test]
    fn paths_of_the_engine_and_the_hosts_network_stay() {
        let of_other = [("network", "/proc/5/ns/net")];
        for namespaces in [&[("network", "/run/netns/n1")][..], &of_other, &[("pid", "")]] {
            let mut changed = pod(namespaces);
            set(&mut changed, 7, "/c");
            clear(&mut changed);
            assert_eq!(changed.linux.namespaces, pod(namespaces).linux.namespaces);
        }
        let mut unknown = pod(&[("network", "")]);
        set(&mut unknown, 0, "/c");
        assert_eq!(facts(&unknown), (0, "/c", vec![""]));
    }
}

//! A pod with a container, and what generated ones have in common.

use crate::random::Random;
use nri_api::proto::*;

/// A pod and the container of it that events are about.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) pod: PodSandbox,
    pub(crate) container: Container,
}

/// Names of containers; one is that of no container of a pod.
const NAMES: [&str; 4] = ["web", "db", "side-car.v2", "other"];

/// Returns a container's name that an annotation may have, mostly that of the case.
pub(crate) fn annotated_name(random: &mut Random, case: &Case) -> String {
    if random.one_in(5) { random.pick(&NAMES).to_string() } else { case.container.name.clone() }
}

/// Returns a pod with addresses, namespaces and labels, and a container with mounts, variables and
/// resources.
pub(crate) fn any(random: &mut Random) -> Case {
    let number = random.below(10_000);
    let mut pod = PodSandbox {
        id: format!("pod{number}"),
        name: format!("shop-{number}"),
        uid: format!("uid-{number}"),
        namespace: random.pick(&["default", "kube-system", ""]).to_string(),
        ..Default::default()
    };
    if random.one_in(2) {
        pod.ips = vec!["192.0.2.7".into(), "2001:db8::7".into()];
    }
    pod.labels.insert("app".into(), "shop".into());
    pod.annotations.insert("io.example/note".into(), "nothing to a plugin".into());
    if random.one_in(2) {
        let namespace = LinuxNamespace {
            type_: "network".into(),
            path: format!("/run/netns/{number}"),
            ..Default::default()
        };
        pod.linux.mut_or_insert_default().namespaces.push(namespace);
    }
    let mut container = Container {
        id: format!("container{number}"),
        pod_sandbox_id: pod.id.clone(),
        name: random.pick(&NAMES[..3]).to_string(),
        args: vec!["sh".into(), "-c".into(), "true".into()],
        env: vec!["PATH=/bin".into(), "A=1".into()],
        ..Default::default()
    };
    container.mounts.push(mount("/proc", "proc", &["nosuid", "noexec"]));
    if !random.one_in(6) {
        let mut options = vec!["nosuid", "noexec", "nodev", "relatime"];
        match random.below(6) {
            0 => options.push("rw"),
            1 => options.extend(["ro", "rw"]),
            2 => {}
            _ => options.insert(random.below(5), "ro"),
        }
        container.mounts.push(mount("/sys/fs/cgroup", "cgroup", &options));
    }
    let resources = container.linux.mut_or_insert_default().resources.mut_or_insert_default();
    resources.pids.mut_or_insert_default().limit = 100;
    Case { pod, container }
}

fn mount(destination: &str, kind: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        type_: kind.to_owned(),
        source: kind.to_owned(),
        options: options.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

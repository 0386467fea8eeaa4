//! Values that change more than the field that they are in: annotations that runtimes obey, and
//! keys of control groups that other fields set, too.
//!
//! Without this, who may set annotations may set everything: memory limits
//! (`org.systemd.property.MemoryMax`), where CRIU finds programs to run as root
//! (`org.criu.config`), devices (`cdi.k8s.io/…`).

/// Beginnings of annotations that runtimes, or programs in front of them, act upon.
const ANNOTATIONS: &[&str] = &[
    // Properties of the container's systemd unit (runc, crun, youki).
    "org.systemd.property.",
    // CRIU's configuration file (runc, crun).
    "org.criu.config",
    // crun: hooks' output, handlers, seccomp's receiver, groups, mounts; its libkrun and
    // WebAssembly handlers.
    "run.oci.",
    "krun.",
    "module.wasm.image/",
    // Kata Containers: paths of hypervisors and kernels.
    "io.katacontainers.",
    // gVisor: flags, mounts.
    "dev.gvisor.",
    // What tells a sandbox from its containers, read by gVisor, Kata and us.
    "io.kubernetes.cri.",
    "io.kubernetes.cri-o.",
    "io.container.manager",
    // Devices, by runtimes that read CDI's annotations.
    "cdi.k8s.io/",
];

/// Controllers of `unified`, and the groups that their files have fields in.
const CONTROLLERS: &[(&str, &str)] = &[
    ("memory.", "resources.memory"),
    ("cpu.", "resources.cpu"),
    ("cpuset.", "resources.cpu"),
    ("pids.", "resources.pids"),
    ("hugetlb.", "resources.hugepages"),
    ("io.", "resources.blockio_class"),
];

/// Whether a runtime acts upon the annotation of this key, or upon its removal.
pub(crate) fn is_obeyed(annotation: &str) -> bool {
    let key = annotation.strip_prefix('-').unwrap_or(annotation);
    ANNOTATIONS.iter().any(|beginning| key.starts_with(beginning))
}

/// The group whose fields say the same as this key of `unified`.
pub(crate) fn group_of_unified(key: &str) -> Option<&'static str> {
    let key = key.strip_prefix('-').unwrap_or(key);
    CONTROLLERS.iter().find(|(controller, _)| key.starts_with(controller)).map(|(_, group)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for key in [
            "org.systemd.property.MemoryMax",
            "-run.oci.handler",
            "org.criu.config",
            "cdi.k8s.io/x",
        ] {
            assert!(is_obeyed(key), "{key}");
        }
        for key in
            ["example.org/x", "org.opencontainers.image.title", "io.kubernetes.pod.name", "", "-"]
        {
            assert!(!is_obeyed(key), "{key}");
        }
        assert_eq!(group_of_unified("memory.max"), Some("resources.memory"));
        assert_eq!(group_of_unified("cpuset.cpus"), Some("resources.cpu"));
        assert_eq!(group_of_unified("rdma.max"), None);
        let groups = crate::field_groups();
        assert!(CONTROLLERS.iter().all(|(_, group)| groups.contains(group)));
    }
}

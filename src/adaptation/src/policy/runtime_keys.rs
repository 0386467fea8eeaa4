//! Keys that take effect outside the field that they are in: annotations that runtimes act on, and
//! keys of `unified` that set the same cgroup files as other fields.
//!
//! Without these tables a plugin that may set annotations could set everything: memory limits
//! (`org.systemd.property.MemoryMax`), programs that CRIU runs as root (`org.criu.config`), devices
//! (`cdi.k8s.io/...`).

/// Prefixes of annotations that runtimes, or programs in front of them, act on.
const RUNTIME_ANNOTATION_PREFIXES: &[&str] = &[
    // Properties of the container's systemd unit (runc, crun, youki).
    "org.systemd.property.",
    // CRIU's configuration file (runc, crun).
    "org.criu.config",
    // crun: output of hooks, handlers, seccomp receiver, groups, mounts; its libkrun and
    // WebAssembly handlers.
    "run.oci.",
    "krun.",
    "module.wasm.image/",
    // Kata Containers: paths of hypervisors and kernels.
    "io.katacontainers.",
    // gVisor: flags, mounts.
    "dev.gvisor.",
    // Annotations that mark sandboxes and their containers, read by gVisor and Kata, for example.
    "io.kubernetes.cri.",
    "io.kubernetes.cri-o.",
    "io.container.manager",
    // Devices, for runtimes that read CDI annotations.
    "cdi.k8s.io/",
];

/// Controllers whose files can be set through `unified`, and the groups of the fields that set the
/// same files.
const UNIFIED_CONTROLLERS: &[(&str, &str)] = &[
    ("memory.", "resources.memory"),
    ("cpu.", "resources.cpu"),
    ("cpuset.", "resources.cpu"),
    ("pids.", "resources.pids"),
    ("hugetlb.", "resources.hugepages"),
    ("io.", "resources.blockio_class"),
];

/// Whether a runtime acts on the annotation with this key. A key with a leading `-` (a removal)
/// counts as the key itself.
pub(crate) fn is_runtime_annotation(annotation: &str) -> bool {
    let key = annotation.strip_prefix('-').unwrap_or(annotation);
    RUNTIME_ANNOTATION_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns the group whose fields set the same cgroup file as this key of `unified`.
pub(crate) fn group_of_unified(key: &str) -> Option<&'static str> {
    let key = key.strip_prefix('-').unwrap_or(key);
    let controller = UNIFIED_CONTROLLERS.iter().find(|(controller, _)| key.starts_with(controller));
    controller.map(|(_, group)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fields::field_groups;

    #[test]
    fn annotations_that_runtimes_act_on_are_recognized_by_prefix() {
        for key in [
            "org.systemd.property.MemoryMax",
            "-run.oci.handler",
            "org.criu.config",
            "cdi.k8s.io/x",
        ] {
            assert!(is_runtime_annotation(key), "{key}");
        }
        for key in
            ["example.org/x", "org.opencontainers.image.title", "io.kubernetes.pod.name", "", "-"]
        {
            assert!(!is_runtime_annotation(key), "{key}");
        }
    }

    #[test]
    fn keys_of_unified_belong_to_the_group_of_their_controller() {
        assert_eq!(group_of_unified("memory.max"), Some("resources.memory"));
        assert_eq!(group_of_unified("cpuset.cpus"), Some("resources.cpu"));
        assert_eq!(group_of_unified("rdma.max"), None);
        let groups = field_groups();
        assert!(UNIFIED_CONTROLLERS.iter().all(|(_, group)| groups.contains(group)));
    }
}

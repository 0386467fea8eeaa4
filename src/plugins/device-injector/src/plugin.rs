//! The plugin: what the annotations of a pod inject into a container that is being created.

use crate::{
    annotations::applicable,
    inject,
    process::{self, InvalidValue},
};
use nri_plugin::prelude::*;

/// Reads the value of an annotation into an adjustment, and returns what it names.
pub(crate) type Apply = fn(&str, &mut Adjustment) -> Result<Vec<String>, InvalidValue>;

/// What can be annotated: for messages, its keys, the older one last, and how it is read.
pub(crate) const KINDS: [(&str, &[&str], Apply); 8] = [
    ("devices", &["devices.noderesource.dev", "devices.nri.io"], inject::devices),
    ("CDI devices", &["cdi-devices.noderesource.dev", "cdi-devices.nri.io"], inject::cdi_devices),
    ("mounts", &["mounts.noderesource.dev", "mounts.nri.io"], inject::mounts),
    ("I/O priority", &["io-priority.noderesource.dev", "io-priority.nri.io"], process::io_priority),
    (
        "scheduling",
        &["scheduling-policy.noderesource.dev", "scheduling-policy.nri.io"],
        process::scheduler,
    ),
    (
        "network devices",
        &["network-devices.noderesource.dev", "network-devices.nri.io"],
        inject::net_devices,
    ),
    ("sysctls", &["sysctl.noderesource.dev"], process::sysctls),
    (
        "memory policy",
        &["memory-policy.noderesource.dev", "memory-policy.nri.io"],
        process::memory_policy,
    ),
];

/// Adjusts containers by the annotations of their pods.
pub(crate) struct DeviceInjector;

/// An annotation that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[error("invalid annotation {key}: {reason}")]
struct InvalidAnnotation {
    key: String,
    reason: InvalidValue,
}

impl Plugin for DeviceInjector {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let mut adjustment = Adjustment::new();
        for (kind, keys, apply) in KINDS {
            let Some((key, value)) = applicable(&pod.annotations, keys, &container.name) else {
                continue;
            };
            let invalid = |reason| InvalidAnnotation { key: key.to_owned(), reason };
            let applied = apply(value, &mut adjustment).map_err(invalid)?;
            if !applied.is_empty() {
                let applied = applied.join(", ");
                tracing::info!("{}/{}: {kind}: {applied}", pod.name, container.name);
            }
        }
        Ok(adjustment.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    #[test]
    fn each_kind_is_read_from_its_annotation() {
        let runtime = InProcessRuntime::start(DeviceInjector, "").unwrap();
        let mut pod = pod("shop");
        let annotations = [
            ("devices.noderesource.dev/container.web", "- {path: /dev/x, type: c, major: 1}"),
            ("cdi-devices.nri.io/pod", "- vendor.com/class=name"),
            ("mounts.noderesource.dev", "- {source: /a, destination: /b, type: bind}"),
            ("io-priority.nri.io", "{class: IOPRIO_CLASS_BE, priority: 2}"),
            ("scheduling-policy.noderesource.dev/pod", "policy: SCHED_BATCH"),
            ("network-devices.noderesource.dev/pod", "- {hostIf: eth7, name: net0}"),
            ("sysctl.noderesource.dev/pod", "a.b: 1"),
            ("memory-policy.nri.io/container.web", "{mode: MPOL_BIND, nodes: '0'}"),
        ];
        for (key, value) in annotations {
            pod.annotations.insert(key.to_owned(), value.to_owned());
        }
        let adjust = runtime.create_container(&pod, &container(&pod, "web")).unwrap().adjust;
        let linux = &adjust.linux;
        assert_eq!((linux.devices.len(), adjust.CDI_devices.len(), adjust.mounts.len()), (1, 1, 1));
        assert!(linux.io_priority.is_some() && linux.scheduler.is_some());
        assert!(linux.memory_policy.is_some());
        assert_eq!(linux.sysctl["a.b"], "1");
        assert_eq!(linux.net_devices["eth7"].name, "net0");
        let adjust = runtime.create_container(&pod, &container(&pod, "db")).unwrap().adjust;
        assert!(adjust.linux.devices.is_empty() && adjust.linux.memory_policy.is_none());
        assert_eq!(adjust.mounts.len(), 1);
    }

    #[test]
    fn an_invalid_annotation_refuses_the_container() {
        let runtime = InProcessRuntime::start(DeviceInjector, "").unwrap();
        let mut pod = pod("shop");
        let key = "devices.noderesource.dev/pod".to_owned();
        let mut check = |value: &str, expected: &str| {
            pod.annotations.insert(key.clone(), value.to_owned());
            let refused = runtime.create_container(&pod, &container(&pod, "web")).unwrap_err();
            assert!(refused.0.starts_with(expected), "{refused}");
        };
        check("- path: [", "invalid annotation devices.noderesource.dev/pod: line 1, ");
        check("- {path: /dev/x}\n- {path: /dev/x}", "the reply writes devices[/dev/x] twice");
        check("- {type: c}", "the reply writes devices with an empty key");
    }
}

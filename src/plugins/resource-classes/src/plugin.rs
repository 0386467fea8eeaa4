//! The plugin: assigns classes to a container that is being created. The runtime has the
//! definitions of the classes (`rdt_config_file` and `blockio_config_file` of containerd and CRI-O,
//! or `nrid`'s configuration), and refuses or ignores a class that it does not know.

use crate::classes::{BLOCKIO, RDT};
use nri_plugin::prelude::*;

/// Assigns RDT and block I/O classes by annotations.
pub(crate) struct ResourceClasses;

impl Plugin for ResourceClasses {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let assigned = |kind: &crate::classes::Kind| {
            kind.assigned(&container.name, &container.annotations, &pod.annotations)
        };
        let mut adjustment = Adjustment::new();
        if let Some(rdt) = assigned(&RDT) {
            rdt.check_rdt()?;
            tracing::info!("{}/{}: RDT class {:?}", pod.name, container.name, rdt.class);
            adjustment.set_rdt_class(rdt.class);
        }
        if let Some(blockio) = assigned(&BLOCKIO) {
            tracing::info!("{}/{}: block I/O class {:?}", pod.name, container.name, blockio.class);
            adjustment.set_blockio_class(blockio.class);
        }
        Ok(adjustment.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    #[test]
    fn classes_are_assigned_at_the_creation() {
        let runtime = InProcessRuntime::start(ResourceClasses, "").unwrap();
        let mut pod = pod("shop");
        let reply = runtime.create_container(&pod, &container(&pod, "web")).unwrap();
        assert!(reply.adjust.linux.is_none());
        let annotations = [
            ("rdt.resources.beta.kubernetes.io/pod", "silver"),
            ("blockio.resources.beta.kubernetes.io/container.web", "fast"),
        ];
        for (key, value) in annotations {
            pod.annotations.insert(key.to_owned(), value.to_owned());
        }
        let reply = runtime.create_container(&pod, &container(&pod, "web")).unwrap();
        let resources = &reply.adjust.linux.resources;
        assert_eq!(resources.rdt_class.value, "silver");
        assert_eq!(resources.blockio_class.value, "fast");
        let reply = runtime.create_container(&pod, &container(&pod, "db")).unwrap();
        assert!(reply.adjust.linux.resources.blockio_class.is_none());

        pod.annotations.insert("rdt.resources.beta.kubernetes.io/pod".into(), "../x".into());
        let refused = runtime.create_container(&pod, &container(&pod, "db")).unwrap_err();
        assert!(refused.0.contains("cannot be a resctrl group"), "{refused}");
    }
}

//! The plugin: adjusts the RDT settings of a container that is being created.

use crate::annotations::Settings;
use nri_plugin::prelude::*;

/// Adjusts containers by the annotations of their pods.
pub(crate) struct Rdt;

impl Plugin for Rdt {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let settings = Settings::read(&pod.annotations, &container.name)?;
        for key in &settings.unknown {
            tracing::warn!(
                "{}/{}: annotation {key} names no RDT setting",
                pod.name,
                container.name
            );
        }
        let mut adjustment = Adjustment::new();
        if let Some(clos_id) = settings.clos_id {
            tracing::info!("{}/{}: closid {clos_id:?}", pod.name, container.name);
            adjustment.set_rdt_clos_id(clos_id);
        }
        if let Some(schemata) = settings.schemata {
            tracing::info!("{}/{}: schemata {schemata:?}", pod.name, container.name);
            adjustment.set_rdt_schemata(schemata);
        }
        if let Some(enable) = settings.enable_monitoring {
            tracing::info!("{}/{}: monitoring {enable}", pod.name, container.name);
            adjustment.set_rdt_enable_monitoring(enable);
        }
        Ok(adjustment.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    #[test]
    fn only_annotated_containers_are_adjusted() {
        let runtime = InProcessRuntime::start(Rdt, "").unwrap();
        let mut pod = pod("shop");
        let monitoring = "enablemonitoring.rdt.noderesource.dev/container.web".to_owned();
        pod.annotations.insert(monitoring.clone(), "true".to_owned());
        let reply = runtime.create_container(&pod, &container(&pod, "web")).unwrap();
        let rdt = &reply.adjust.linux.rdt;
        assert!(rdt.enable_monitoring.value);
        assert!(rdt.clos_id.is_none() && rdt.schemata.is_none() && !rdt.remove);
        let reply = runtime.create_container(&pod, &container(&pod, "db")).unwrap();
        assert!(reply.adjust.linux.is_none());
        pod.annotations.insert(monitoring, "perhaps".to_owned());
        let refused = runtime.create_container(&pod, &container(&pod, "web")).unwrap_err();
        assert!(refused.0.ends_with("is \"perhaps\", not true or false"), "{refused}");
    }
}

//! An NRI plugin that sets the resource limits (rlimits) of containers' processes from annotations
//! of their pods: those of the plugin `ulimit-adjuster` of containerd/nri.

mod annotation;

use annotation::Ulimit;
use nri_plugin::{
    flags::{Flags, parse},
    prelude::*,
};
use std::process::ExitCode;

/// NRI plugin that sets resource limits of containers from annotations of their pods.
#[derive(clap::Parser)]
#[command(name = "ulimit-adjuster", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

/// Sets the limits that annotations name.
struct UlimitAdjuster;

impl Plugin for UlimitAdjuster {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let mut adjustment = Adjustment::new();
        for Ulimit { kind, hard, soft } in annotation::ulimits(&pod, &container.name)? {
            tracing::debug!("{}/{}: {kind} soft={soft} hard={hard}", pod.name, container.name);
            adjustment.add_rlimit(kind, hard, soft);
        }
        Ok(adjustment.into())
    }
}

fn main() -> ExitCode {
    let line: CommandLine = parse();
    line.plugin.builder(UlimitAdjuster).main()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    #[test]
    fn a_container_gets_the_limits_of_its_annotation() {
        let runtime = InProcessRuntime::start(UlimitAdjuster, "").unwrap();
        assert_eq!(runtime.events(), EventMask::from_iter([Event::CREATE_CONTAINER]));
        let mut pod = pod("p");
        let key = "ulimits.noderesource.dev/container.c";
        let create = |pod: &PodSandbox, name: &str| {
            runtime.create_container(pod, &container(pod, name)).map(|reply| {
                let limits = reply.adjust.rlimits.iter();
                limits.map(|l| (l.type_.clone(), l.hard, l.soft)).collect::<Vec<_>>()
            })
        };
        pod.annotations.insert(key.into(), "[{type: nofile, hard: 9, soft: 8}]".into());
        assert_eq!(create(&pod, "c").unwrap(), [("RLIMIT_NOFILE".to_owned(), 9, 8)]);
        assert_eq!(create(&pod, "other").unwrap(), []);
        pod.annotations.insert(key.into(), "[{type: cpu, hard: 1}, {type: CPU}]".into());
        let error = create(&pod, "c").unwrap_err().0;
        assert!(error.contains("RLIMIT_CPU"), "{error}");
    }
}

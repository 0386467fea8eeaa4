//! Verification of Podman's infra containers. Plugins get no requests for a sandbox container, so a
//! container that claims to be the infra container of its pod must prove it.
//!
//! `nri_host::podman` defines the proof, which reads files of the container. Their file system may
//! hang, so the proof has a time limit. An unproven container is treated like any other, in a pod
//! without a sandbox container: an infra container with an unusual program then still shares a pod
//! with the other containers. A false claim does not add a container to a pod with a known sandbox.

use crate::{
    host::path_probe::{PathProbe, ProbeRequest},
    state::pod::{PodKind, PodRecord},
    verb::creation::draft::Draft,
};
use nri_engine::{EngineKind, Role, podman};
use nri_host::podman::{CandidateMount, InfraCandidate, PodmanEnvironment};
use serde_json::Value;
use std::path::PathBuf;

/// Clears the sandbox role of `draft`, unless the container is proved to be an infra container.
/// `environment` is the wrapper's; `pod` returns a known pod by its id.
pub async fn prove(
    probe: &PathProbe,
    draft: &mut Draft,
    environment: &[nri_files::OsText],
    pod: impl Fn(&str) -> Option<PodRecord>,
) {
    if draft.identity.engine != EngineKind::Podman || draft.identity.role != Role::Sandbox {
        return;
    }
    let request =
        ProbeRequest { infra: Some(candidate(draft, environment)), ..ProbeRequest::default() };
    let namespace = draft.runtime.namespace().map(AsRef::as_ref);
    match probe.probe(&request, namespace).await {
        Ok(answer) if answer.infra => return,
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(
                %error,
                container = draft.key.id,
                pod = draft.pod_id(),
                "cannot read the program of the infra container"
            );
        }
    }
    // Podman builds this image once, and keeps it when the host's catatonit is upgraded.
    let image = &draft.identity.image;
    let hint = if image.starts_with("localhost/podman-pause:") {
        format!(
            "; if its image has an older catatonit than the host: podman rmi {image}, once no pod \
             uses it"
        )
    } else {
        String::new()
    };
    tracing::warn!(
        container = draft.key.id,
        pod = draft.identity.pod.id,
        "container has the cgroup or the name of a pod's infra container, but runs neither this \
         host's catatonit -P nor the infra_image of containers.conf: it is adjusted like any other \
         container{hint}"
    );
    let has_sandbox = pod(&draft.identity.pod.id).is_some_and(|pod| pod.kind == PodKind::Sandbox);
    let annotations =
        draft.config.annotations().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    podman::reject_infra(&mut draft.identity, &draft.key.id, &annotations, has_sandbox);
}

fn candidate(draft: &Draft, environment: &[nri_files::OsText]) -> InfraCandidate {
    let config = &draft.config;
    let args = config.get(&["process", "args"]).and_then(Value::as_array).into_iter().flatten();
    let variable = |name: &str| {
        let entries = environment.iter().filter_map(|v| v.0.to_str()?.split_once('='));
        entries.filter(|(n, v)| *n == name && !v.is_empty()).map(|(_, v)| PathBuf::from(v)).next()
    };
    let mount = |m: nri_spec::OciMount<'_>| CandidateMount {
        destination: m.destination.into(),
        source: m.source.unwrap_or_default().into(),
        kind: m.kind.unwrap_or_default().to_owned(),
    };
    InfraCandidate {
        caller: draft.caller.map(|caller| caller.pid),
        // The path in config.json is relative to the bundle, or absolute.
        root: draft.bundle.dir().join(config.rootfs_path().unwrap_or_default()),
        layers: podman::layers(draft.bundle.dir()),
        args: args.map(|a| a.as_str().unwrap_or_default().to_owned()).collect(),
        mounts: config.mounts().map(mount).collect(),
        image: draft.identity.image.clone(),
        environment: PodmanEnvironment {
            config: variable("CONTAINERS_CONF"),
            override_config: variable("CONTAINERS_CONF_OVERRIDE"),
            config_home: variable("XDG_CONFIG_HOME"),
            home: variable("HOME"),
        },
    }
}

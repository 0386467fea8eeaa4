//! A container of Podman that says it is a pod's infra container has to prove it: nothing is asked
//! about a sandbox.
//!
//! What proves it is decided in `nri_host::podman`. The files are a container's, and its file
//! system may hang; without a proof in time it is a container like others, and its pod is one
//! without a sandbox container, so that an infra container with a program of its own and the
//! members of its pod are in one pod. Into a pod whose sandbox is known nobody gets so.

use crate::{
    host::path_probe::{PathProbe, ProbeRequest},
    state::record::PodRecord,
    verb::draft::Draft,
};
use nri_engine::{Engine, Role, podman};
use nri_host::podman::{Asked, Environment, Mount};
use serde_json::Value;
use std::path::PathBuf;

/// Takes the claim back where it cannot be proven. `environment`: the call's. `pod`: the pod of an
/// id, if it is known.
pub async fn prove(
    probe: &PathProbe,
    draft: &mut Draft,
    environment: &[nri_control::OsText],
    pod: impl Fn(&str) -> Option<PodRecord>,
) {
    if draft.identity.engine != Engine::Podman || draft.identity.role != Role::Sandbox {
        return;
    }
    let request =
        ProbeRequest { infra: Some(asked(draft, environment)), ..ProbeRequest::default() };
    match probe.probe(&request).await {
        Ok(answer) if answer.infra => return,
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(%error, container = draft.key.id, "what it runs cannot be read")
        }
    }
    // Podman builds it once, and keeps it when the host's program is upgraded.
    let image = &draft.identity.image;
    let hint = match image.starts_with("localhost/podman-pause:") {
        true => format!(
            "; if its image has an older catatonit than the host: podman rmi {image}, once no pod has it"
        ),
        false => String::new(),
    };
    tracing::warn!(
        container = draft.key.id,
        pod = draft.identity.pod.id,
        "it has the cgroup or the name of a pod's infra container, and runs neither this host's catatonit -P nor the infra_image of containers.conf: \
         it is adjusted like any other container{hint}"
    );
    let taken = pod(&draft.identity.pod.id).is_some_and(|pod| pod.real);
    let annotations =
        draft.document.annotations().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    podman::deny(&mut draft.identity, &draft.key.id, &annotations, taken);
}

fn asked(draft: &Draft, environment: &[nri_control::OsText]) -> Asked {
    let document = &draft.document;
    let args = document.get(&["process", "args"]).and_then(Value::as_array).into_iter().flatten();
    let variable = |name: &str| {
        let entries = environment.iter().filter_map(|v| v.0.to_str()?.split_once('='));
        entries.filter(|(n, v)| *n == name && !v.is_empty()).map(|(_, v)| PathBuf::from(v)).next()
    };
    let mount = |m: nri_spec::OciMount<'_>| Mount {
        destination: m.destination.into(),
        source: m.source.unwrap_or_default().into(),
        kind: m.kind.unwrap_or_default().to_owned(),
    };
    Asked {
        caller: draft.caller.map(|caller| caller.pid),
        // Relative to the bundle, unless it is absolute.
        root: draft.bundle.dir().join(document.rootfs_path().unwrap_or_default()),
        layers: podman::layers(draft.bundle.dir()),
        args: args.map(|a| a.as_str().unwrap_or_default().to_owned()).collect(),
        mounts: document.mounts().map(mount).collect(),
        image: draft.identity.image.clone(),
        environment: Environment {
            config: variable("CONTAINERS_CONF"),
            override_config: variable("CONTAINERS_CONF_OVERRIDE"),
            config_home: variable("XDG_CONFIG_HOME"),
            home: variable("HOME"),
        },
    }
}

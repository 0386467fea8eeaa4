//! Verification of Podman's infra containers. Plugins get no requests for a sandbox container, so a
//! container that claims to be the infra container of its pod must prove it.
//!
//! Two things are needed. It runs the program of an infra container: `nri_host::podman` defines the
//! proof, which reads files of the container. Their file system may hang, so the proof has a time
//! limit. And it has no more than Podman gives to each infra container by itself (`more`): users
//! choose volumes, devices, security options and the image of a pod, and `exec` runs other programs
//! with them than the one that was proved.
//!
//! An unproven container is treated like any other, in a pod without a sandbox container: an infra
//! container with an unusual program or with volumes still shares a pod with the other containers.
//! A false claim does not add a container to a pod with a known sandbox.

use crate::{
    host::path::probe::{PathProbe, ProbeRequest},
    state::pod::{PodKind, PodRecord},
    verb::creation::draft::{Draft, annotations},
};
use nri_control::Verb;
use nri_engine::{EngineKind, Role, podman};
use nri_facts::{host_namespaces, namespace_paths};
use nri_host::podman::{CandidateMount, InfraCandidate, PodmanEnvironment};
use nri_spec::{OciConfig, OciMount, facts::ContainerFacts, resolve_paths};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Capabilities that a container of Podman 4.3 to 5.8 has by default, in any of them.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];
/// File systems of the kernel that show nothing of the host's files.
const FILE_SYSTEMS: [&str; 7] = ["cgroup", "cgroup2", "devpts", "mqueue", "proc", "sysfs", "tmpfs"];
/// Namespaces of the host in which an infra container may be: Podman leaves them to the host by
/// default, the one of cgroups on cgroup v1.
const OF_HOST: [&str; 3] = ["cgroup", "time", "user"];
/// Annotations that crun obeys, and that Podman sets by itself.
const OF_CRUN: [&str; 2] = ["run.oci.keep_original_groups", "run.oci.mount_context_type"];

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
    let why = match more(&draft.config, &draft.key.id) {
        // Whoever made the checkpoint has chosen all of it, also the id.
        _ if draft.verb == Verb::Restore => "is restored from a checkpoint".to_owned(),
        Some(more) => format!("has {more} that Podman itself gives to none"),
        None => match unproven(probe, draft, environment).await {
            Some(why) => why,
            None => return,
        },
    };
    tracing::warn!(
        container = draft.key.id,
        pod = draft.identity.pod.id,
        "container has the cgroup or the name of a pod's infra container, but {why}: it is \
         adjusted like any other container"
    );
    let has_sandbox = pod(&draft.identity.pod.id).is_some_and(|pod| pod.kind == PodKind::Sandbox);
    let annotations = annotations(&draft.config);
    podman::reject_infra(&mut draft.identity, &draft.key.id, &annotations, has_sandbox);
}

/// Returns why the container is not proved to be an infra container; `None` if it is.
async fn unproven(
    probe: &PathProbe,
    draft: &Draft,
    environment: &[nri_files::OsText],
) -> Option<String> {
    // Paths as runtimes resolve them.
    let mut config = draft.config.clone();
    resolve_paths(&mut config, &draft.bundle_path.to_string_lossy());
    let request = ProbeRequest {
        infra: Some(candidate(draft, environment)),
        namespaces: namespace_paths(&config),
        ..ProbeRequest::default()
    };
    let namespace = draft.runtime.namespace().map(AsRef::as_ref);
    let reply = match probe.probe(&request, namespace).await {
        Ok(reply) => reply,
        Err(error) => return Some(format!("its program cannot be read ({error})")),
    };
    if !reply.infra {
        // Podman builds this image once, and keeps it when the host's catatonit is upgraded.
        let image = &draft.identity.image;
        let hint = if image.starts_with("localhost/podman-pause:") {
            format!(
                " (if its image has an older catatonit than the host: podman rmi {image}, once no \
                 pod uses it)"
            )
        } else {
            String::new()
        };
        return Some(format!(
            "runs neither this host's catatonit -P nor the infra_image of containers.conf{hint}"
        ));
    }
    let found = host_namespaces(&config, reply.namespaces, |kind, id| id.is_of_host(kind));
    match found {
        Err(error) => Some(format!("its namespaces are unknown ({error})")),
        Ok(found) => {
            let is_more = |kind: &&str| !kind.is_empty() && !OF_HOST.contains(kind);
            let kind = found.split(',').find(is_more)?;
            Some(format!("is in a namespace of the host: {kind}"))
        }
    }
}

/// Returns what the container with this id has beyond what Podman gives to each infra container.
fn more(config: &OciConfig, id: &str) -> Option<&'static str> {
    let facts = ContainerFacts::of(config, None);
    let capabilities = facts.capabilities();
    let has_more_capabilities =
        capabilities.split(',').any(|name| !name.is_empty() && !CAPABILITIES.contains(&name));
    let list = |path: &[&str]| config.get(path).and_then(Value::as_array).into_iter().flatten();
    let is_allowed = |rule: &Value| rule.get("allow") != Some(&Value::Bool(false));
    let is_obeyed = |key: &str| key.starts_with("run.oci.") && !OF_CRUN.contains(&key);
    let program = config.args().first().copied().unwrap_or_default();
    let found = [
        ("mounts", config.mounts().any(|mount| !is_own(mount, id, program))),
        ("devices", list(&["linux", "devices"]).next().is_some()),
        ("device rules", list(&["linux", "resources", "devices"]).any(is_allowed)),
        ("capabilities", has_more_capabilities),
        ("system calls", facts.seccomp() != "filtered"),
        ("unprotected paths of the kernel", !facts.unprotected_paths().is_empty()),
        ("annotations for crun", config.annotations().any(|(key, _)| is_obeyed(key))),
    ];
    found.into_iter().find_map(|(what, is_there)| is_there.then_some(what))
}

/// Whether a mount is one that Podman makes by itself: of the kernel, of a file in the directories
/// that Podman has for this container, whose id is not known before, or of the program, which the
/// proof reads.
fn is_own(mount: OciMount<'_>, id: &str, program: &str) -> bool {
    let OciMount { destination, source, kind } = mount;
    let source = source.unwrap_or_default();
    match kind.unwrap_or_default() {
        "bind" => destination == program || is_in_own_directory(source, id),
        // With the option `bind`, runtimes take the path of any type for one of the host.
        kind => FILE_SYSTEMS.contains(&kind) && !source.contains('/'),
    }
}

/// Whether a path is in `<driver>-containers/<id>/userdata`.
fn is_in_own_directory(path: &str, id: &str) -> bool {
    let parts: Vec<_> = Path::new(path).components().collect();
    let is_up = |part: &Component<'_>| *part == Component::ParentDir;
    let name = |part: &Component<'_>| part.as_os_str().to_str().map(str::to_owned);
    let is_own = |parts: &[Component<'_>]| match parts {
        [containers, owner, userdata] => {
            name(containers).is_some_and(|name| name.ends_with("-containers"))
                && name(owner).as_deref() == Some(id)
                && name(userdata).as_deref() == Some("userdata")
        }
        _ => false,
    };
    path.starts_with('/') && !parts.iter().any(is_up) && parts.windows(3).any(is_own)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mount(kind: &str, source: &str, at: &str) -> Value {
        json!({"destination": at, "type": kind, "source": source, "options": ["ro"]})
    }

    /// An infra container as Podman 5.8.6 makes it, without what it has in common with others.
    fn infra() -> Value {
        json!({
            "process": {
                "args": ["/catatonit", "-P"],
                "capabilities": {"bounding": ["CAP_CHOWN", "CAP_KILL"], "effective": ["CAP_KILL"]},
            },
            "mounts": [
                mount("proc", "proc", "/proc"),
                mount("tmpfs", "tmpfs", "/dev"),
                mount("sysfs", "sysfs", "/sys"),
                mount("cgroup", "cgroup", "/sys/fs/cgroup"),
                mount("bind", "/usr/bin/catatonit", "/catatonit"),
                mount("bind", "/run/x/overlay-containers/c1/userdata/hosts", "/etc/hosts"),
                mount("bind", "/var/lib/x/vfs-containers/c1/userdata/shm", "/dev/shm"),
            ],
            "annotations": {"io.container.manager": "libpod", "run.oci.keep_original_groups": "1"},
            "linux": {
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
                "maskedPaths": [
                    "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/sys/firmware",
                ],
                "readonlyPaths": [
                    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
                ],
            },
        })
    }

    fn more_in(config: Value) -> Option<&'static str> {
        more(&OciConfig::from_value(config).unwrap(), "c1")
    }

    #[test]
    fn an_infra_container_has_what_podman_gives_it() {
        assert_eq!(more_in(infra()), None);
    }

    /// What `podman pod create` takes: `--volume`, `--device`, `--security-opt`, and annotations
    /// of `play kube`.
    #[test]
    fn an_infra_container_with_more_than_podman_gives_is_like_any_other() {
        let with = |pointer: &str, value: Value| {
            let mut config = infra();
            match config.pointer_mut(pointer) {
                Some(Value::Array(list)) => list.push(value),
                Some(other) => *other = value,
                None => panic!("{pointer}"),
            }
            more_in(config)
        };
        for (kind, source) in [
            ("bind", "/"),
            ("bind", "/var/lib/containers/storage/volumes/v/_data"),
            ("bind", "/var/lib/x/vfs-containers/c2/userdata/shm"),
            ("bind", "/var/lib/x/vfs-containers/c1/userdata/../../../../etc"),
            ("bind", "x-containers/c1/userdata/hosts"),
            ("overlay", "overlay"),
            ("ext4", "/dev/sda"),
            ("tmpfs", "/etc"),
            ("none", "/etc"),
        ] {
            let found = with("/mounts", mount(kind, source, "/h"));
            assert_eq!(found, Some("mounts"), "{kind} {source}");
        }
        let allowed = json!({"allow": true, "type": "c", "access": "rwm"});
        for (pointer, value, expected) in [
            ("/linux", json!({"devices": [{"path": "/dev/sda"}]}), "devices"),
            ("/linux/resources/devices", allowed, "device rules"),
            ("/process/capabilities/bounding", json!("CAP_SYS_ADMIN"), "capabilities"),
            ("/process/capabilities", json!(null), "capabilities"),
            ("/linux/seccomp", json!(null), "system calls"),
            ("/linux/seccomp", json!({"defaultAction": "SCMP_ACT_ALLOW"}), "system calls"),
            ("/annotations", json!({"run.oci.handler": "krun"}), "annotations for crun"),
        ] {
            assert_eq!(with(pointer, value), Some(expected), "{pointer}");
        }
        let mut unmasked = infra();
        unmasked["linux"]["maskedPaths"] = json!([]);
        assert_eq!(more_in(unmasked), Some("unprotected paths of the kernel"));
    }
}

//! Facts about containers that the protocol has no fields for, as annotations. Their prefix is
//! reserved: what engines, users and images set under it does not reach plugins.
//!
//! What follows from `config.json` is decided in `nri_spec::facts`, and what depends on paths in
//! `nri_facts`: a child process looks them up (`host/path/probe.rs`), which is started only if the
//! configuration lists such a fact. One that cannot be found out is missing, so that rules that
//! need it refuse the container, and named in the annotation `unknown`.

use crate::{
    host::{
        path::probe::{PathProbe, ProbeReply, ProbeRequest},
        runtime::LowLevelRuntime,
    },
    resources::versions::RuntimeVersions,
};
use nri_config::ContainerFact;
use nri_engine::EngineKind;
use nri_facts::{MountSources, host_namespaces, namespace_paths};
use nri_spec::{OciConfig, facts::ContainerFacts, resolve_paths};
use std::{collections::HashMap, path::Path};

/// Prefix of the annotations.
const PREFIX: &str = "facts.nri-container-runtime/";

/// Returns the first key of an adjustment, or of its removals, that has the reserved prefix.
pub(super) fn reserved<'a>(keys: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    keys.map(|key| key.strip_prefix('-').unwrap_or(key)).filter(|key| is_reserved(key)).min()
}

/// Removes annotations that have the reserved prefix.
pub(super) fn remove_forged(annotations: &mut HashMap<String, String>) {
    annotations.retain(|key, _| !is_reserved(key));
}

/// Returns the annotation of a container whose names and labels could not be read of its engine.
/// Without a line in the configuration: a rule must not take them for missing.
pub(super) fn of_names(is_complete: bool) -> Option<(String, String)> {
    (!is_complete).then(|| (format!("{PREFIX}incomplete"), "true".to_owned()))
}

/// A container about which facts are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    /// Its id, for log lines.
    pub(super) id: &'a str,
    /// The engine that creates it.
    pub(super) engine: &'a EngineKind,
    /// Its `config.json`.
    pub(super) config: &'a OciConfig,
    /// Absolute path of its bundle.
    pub(super) bundle: &'a Path,
    /// Its runtime.
    pub(super) runtime: &'a LowLevelRuntime,
}

/// Returns the annotations for `facts`. A fact that cannot be found out is logged, and missing; one
/// more annotation says that the configuration lists it.
pub(super) async fn annotations(
    facts: &[ContainerFact],
    subject: Subject<'_>,
    versions: &RuntimeVersions,
    probe: &PathProbe,
) -> Vec<(String, String)> {
    if facts.is_empty() {
        return Vec::new();
    }
    let Subject { id, engine, config, runtime, .. } = subject;
    let needs_kind = facts.iter().any(|fact| {
        use ContainerFact::{Capabilities, DeviceAccess, Privileged, Seccomp};
        matches!(fact, Capabilities | DeviceAccess | Privileged | Seccomp)
    });
    let needs_kind = needs_kind && ContainerFacts::depend_on_runtime(config);
    let kind = if needs_kind { versions.of(runtime).await.kind } else { None };
    let of_config = match (ContainerFacts::of(config, kind), runtime.makes_cgroups()) {
        (facts, true) => facts,
        (facts, false) => facts.without_cgroup(),
    };
    let probed = on_host(facts, subject, probe).await;
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for fact in facts {
        let value = match fact {
            ContainerFact::Capabilities => Ok(of_config.capabilities()),
            ContainerFact::DeviceAccess => Ok(of_config.device_access()),
            ContainerFact::Engine => Ok(engine.name().to_owned()),
            ContainerFact::HostNamespaces => probed.namespaces.clone(),
            ContainerFact::MountSources => probed.mounts.clone(),
            ContainerFact::Privileged => Ok(of_config.is_privileged().to_string()),
            ContainerFact::Seccomp => Ok(of_config.seccomp().to_owned()),
            ContainerFact::UnprotectedPaths => Ok(of_config.unprotected_paths()),
        };
        let fact = fact.name();
        match value {
            Ok(value) => found.push((format!("{PREFIX}{fact}"), value)),
            Err(error) => {
                tracing::warn!(container = id, fact, error, "fact unknown, plugins receive none");
                unknown.push(fact);
            }
        }
    }
    if !unknown.is_empty() {
        found.push((format!("{PREFIX}unknown"), unknown.join(",")));
    }
    found
}

fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Facts that depend on paths, or the reasons why they are unknown.
struct OnHost {
    namespaces: Result<String, String>,
    mounts: Result<String, String>,
}

/// Looks up the paths that `facts` need in the mount namespace of the runtime.
async fn on_host(
    facts: &[ContainerFact],
    Subject { config, bundle, runtime, .. }: Subject<'_>,
    probe: &PathProbe,
) -> OnHost {
    let wants = |fact| facts.contains(&fact);
    let (wants_mounts, wants_namespaces) =
        (wants(ContainerFact::MountSources), wants(ContainerFact::HostNamespaces));
    if !wants_mounts && !wants_namespaces {
        return OnHost { namespaces: Ok(String::new()), mounts: Ok(String::new()) };
    }
    // As runtimes resolve them.
    let mut config = config.clone();
    resolve_paths(&mut config, &bundle.to_string_lossy());
    let mounts = if wants_mounts { MountSources::of(&config) } else { MountSources::default() };
    let request = ProbeRequest {
        mount_sources: mounts.sources.clone(),
        namespaces: if wants_namespaces { namespace_paths(&config) } else { Vec::new() },
        ..ProbeRequest::default()
    };
    let reply = match (request.mount_sources.as_slice(), request.namespaces.as_slice()) {
        ([], []) => Ok(ProbeReply::default()),
        _ if runtime.namespace_inode().is_some() && runtime.namespace().is_none() => {
            Err("no process is left in the mount namespace of the engine's call".to_owned())
        }
        _ => {
            let namespace = runtime.namespace().map(AsRef::as_ref);
            let paths = request.mount_sources.iter().map(|source| &source.path);
            let paths: Vec<_> =
                paths.chain(&request.namespaces).map(|p| format!("{p:?}")).collect();
            let reply = probe.probe(&request, namespace).await;
            reply.map_err(|error| format!("{}: {error}", paths.join(", ")))
        }
    };
    match reply {
        Err(error) => OnHost { namespaces: Err(error.clone()), mounts: Err(error) },
        Ok(reply) => OnHost {
            namespaces: host_namespaces(&config, reply.namespaces, |kind, id| id.is_of_host(kind)),
            mounts: mounts.annotation(reply.mount_sources),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;
    use serde_json::{Value, json};

    const ALL: [ContainerFact; 7] = [
        ContainerFact::Engine,
        ContainerFact::Capabilities,
        ContainerFact::DeviceAccess,
        ContainerFact::HostNamespaces,
        ContainerFact::MountSources,
        ContainerFact::Privileged,
        ContainerFact::Seccomp,
    ];

    async fn of(facts: &[ContainerFact], config: &Value) -> HashMap<String, String> {
        let config = OciConfig::parse(config.to_string().as_bytes()).unwrap();
        let path = |path: &str| OsText(path.into());
        let runtime = LowLevelRuntime::new(&path("/nowhere"), &[], None, &[], &path("/"));
        let subject = Subject {
            id: "c1",
            engine: &EngineKind::Docker,
            config: &config,
            bundle: Path::new("/b"),
            runtime: &runtime,
        };
        let (versions, probe) = (RuntimeVersions::default(), PathProbe::default());
        let found = annotations(facts, subject, &versions, &probe).await.into_iter();
        found.map(|(key, value)| (key.strip_prefix(PREFIX).unwrap().to_owned(), value)).collect()
    }

    /// A container as engines make it with `--privileged`.
    fn privileged() -> Value {
        json!({
            "ociVersion": "1.0.2",
            "process": {"capabilities": {"bounding": ["CAP_SYS_ADMIN", "CAP_KILL"]}},
            "linux": {"resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "access": "rwm"},
            ]}}
        })
    }

    async fn is_privileged(config: &Value) -> bool {
        of(&[ContainerFact::Privileged], config).await["privileged"] == "true"
    }

    #[tokio::test]
    async fn a_container_is_privileged_however_its_config_says_it() {
        assert!(is_privileged(&privileged()).await);
        let with = |path: &str, value: Value| {
            let mut changed = privileged();
            *changed.pointer_mut(path).unwrap() = value;
            changed
        };
        // `--privileged` with a seccomp profile that allows all.
        let mut filtered = privileged();
        filtered["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW"});
        assert!(is_privileged(&filtered).await);
        // `--cap-add ALL` with two rules, or one, for devices.
        let rules = json!([
            {"allow": false, "access": "rwm"},
            {"allow": true, "type": "b", "access": "rwm"},
            {"allow": true, "type": "c", "major": -1, "minor": -1, "access": "rwm"},
        ]);
        assert!(is_privileged(&with("/linux/resources/devices", rules.clone())).await);
        let mut of_one_kind = with("/linux/resources/devices", rules);
        of_one_kind["linux"]["resources"]["devices"].as_array_mut().unwrap().pop();
        assert!(is_privileged(&of_one_kind).await);
        // A capability in another set.
        let ambient = json!({"ambient": ["CAP_SYS_ADMIN"]});
        assert!(is_privileged(&with("/process/capabilities", ambient)).await);
        for (path, value) in [
            ("/process/capabilities/bounding", json!(["CAP_KILL"])),
            ("/linux/resources/devices/1/allow", json!(false)),
            ("/linux/resources/devices/1", json!({"allow": true, "type": "b", "access": "r"})),
            ("/linux/resources/devices/1", json!({"allow": true, "type": "b", "major": 8})),
        ] {
            assert!(!is_privileged(&with(path, value.clone())).await, "{path}: {value}");
        }
    }

    #[tokio::test]
    async fn only_chosen_facts_are_annotations() {
        assert_eq!(of(&[], &privileged()).await, HashMap::new());
        let mut all = of(&ALL, &privileged()).await;
        // The container joins no namespace by a path and has no mounts: no child was started.
        assert_eq!(all.remove("mount_sources").as_deref(), Some("[]"));
        let namespaces = "cgroup,ipc,mount,network,pid,time,user,uts";
        assert_eq!(all.remove("host_namespaces").as_deref(), Some(namespaces));
        let expected = [
            ("engine", "docker"),
            ("capabilities", "CAP_KILL,CAP_SYS_ADMIN"),
            ("device_access", "a *:* rwm"),
            ("privileged", "true"),
            ("seccomp", "none"),
        ];
        assert_eq!(all, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    /// The same as a fact that the configuration does not list, rules said before.
    #[tokio::test]
    async fn a_fact_that_cannot_be_found_out_is_named() {
        // No program answers as a probe here: that of the tests has no such argument.
        let config = json!({
            "ociVersion": "1.0.2",
            "mounts": [{"destination": "/d", "type": "bind", "source": "/proc/self/cwd"}],
        });
        let found = of(&[ContainerFact::Engine, ContainerFact::MountSources], &config).await;
        let expected = [("engine", "docker"), ("unknown", "mount_sources")];
        assert_eq!(found, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        assert_eq!(of(&[ContainerFact::Engine], &config).await.get("unknown"), None);
    }

    #[test]
    fn the_prefix_is_reserved() {
        let fact = |name: &str, value: &str| (format!("{PREFIX}{name}"), value.to_owned());
        let mut annotations = HashMap::from([fact("privileged", "true"), fact("other", "")]);
        annotations.insert("a".to_owned(), "b".to_owned());
        remove_forged(&mut annotations);
        assert_eq!(annotations, HashMap::from([("a".to_owned(), "b".to_owned())]));
        let keys = ["a".to_owned(), format!("-{PREFIX}x"), format!("{PREFIX}a")];
        assert_eq!(reserved(keys.iter()), Some("facts.nri-container-runtime/a"));
        assert_eq!(reserved(keys[..1].iter()), None);
    }
}

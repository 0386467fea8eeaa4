//! Checks that users of one engine cannot pass for another engine, choose a namespace, or enter a
//! pod: each adds to a container of theirs what the engine lets its users choose. Which engine,
//! namespace and pod a container has are keys of policies, rules and quotas.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::Case;
use serde_json::{Value, json};

/// The pod that users try to enter.
const POD: &str = "7777777777777777777777777777777777777777777777777777777777777777";
/// The container and the pod of users of containerd's API and of Podman, who choose ids.
const ID: &str = "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1";

/// What users of an engine choose.
struct Chosen {
    /// Containers of the engine.
    cases: &'static [&'static str],
    /// Prefixes of annotations that its users do not choose, since the engine sets them itself, or
    /// by which they pass for no other engine.
    own: &'static [&'static str],
    /// Forms of the cgroup, with `ID` for the container's id.
    cgroups: &'static [&'static str],
    /// Whether users choose the path of the root file system.
    root: bool,
}

const CHOSEN: [Chosen; 6] = [
    Chosen {
        cases: &["docker-20.10.24", "docker-26.1.5", "docker-28.5.2", "docker-containerd-store"],
        own: &[],
        cgroups: &[
            "/libpod_parent/ID",
            "/buildkit/ID",
            "/libpod-ID/ID",
            "/x/crio-ID/ID",
            "isulad.slice:docker:ID",
        ],
        root: false,
    },
    // Users of Podman enter pods of Podman, whatever says so.
    Chosen {
        cases: &["podman-4.3.1", "podman-5.4.2", "podman-5.8.6", "podman-5.8.6-rm", "podman-vfs"],
        own: &["io.kubernetes.cri-o.SandboxID"],
        cgroups: &[
            "",
            "/buildkit/libpod-ID",
            "/x/crio-ID/libpod-ID",
            "/x/libpod-payload-ID",
            "crio.slice:libpod:ID",
            "crio:crio.slice:libpod:ID",
        ],
        root: true,
    },
    // Annotations of nerdctl are those of any client of containerd.
    Chosen {
        cases: &["ctr-1.6.20", "ctr-1.7.24", "ctr-2.1.9"],
        own: &["nerdctl/"],
        cgroups: &[
            "",
            "/x/libpod-ID",
            "/x/crio-ID",
            "/buildkit/ID",
            "/docker/ID",
            "x.slice:libpod:ID",
            "x.slice:crio:ID",
            "x.slice:isulad:ID",
        ],
        root: true,
    },
    Chosen {
        cases: &["nerdctl"],
        own: &["nerdctl/"],
        cgroups: &["/buildkit/ID", "/docker/ID", "x.slice:nerdctl:ID"],
        root: true,
    },
    // Tenants of Kubernetes: annotations that containerd and CRI-O pass through, and volumes.
    Chosen {
        cases: &[
            "containerd-1.6.20-sandbox",
            "containerd-1.6.20-member",
            "containerd-2.1.9-sandbox",
            "containerd-2.1.9-member",
        ],
        own: &["io.kubernetes.cri."],
        cgroups: &[],
        root: false,
    },
    Chosen {
        cases: &["cri-o-sandbox", "cri-o-shared"],
        own: &["io.kubernetes.cri-o.", "io.container.manager"],
        cgroups: &[],
        root: false,
    },
];

/// Annotations by which engines are recognized, in sets that belong together.
const ANNOTATIONS: [&[(&str, &str)]; 7] = [
    &[("io.container.manager", "libpod")],
    &[("io.container.manager", "libpod"), ("io.kubernetes.cri-o.SandboxID", POD)],
    &[("io.kubernetes.cri-o.SandboxID", POD)],
    &[
        ("io.container.manager", "cri-o"),
        ("io.kubernetes.cri-o.ContainerType", "container"),
        ("io.kubernetes.cri-o.SandboxID", POD),
        ("io.kubernetes.cri-o.SandboxName", "k8s_web_team-b_u_0"),
        ("io.kubernetes.cri-o.Labels", "{\"io.kubernetes.pod.namespace\":\"team-b\"}"),
    ],
    &[
        ("io.container.manager", "cri-o"),
        ("io.kubernetes.cri-o.ContainerType", "sandbox"),
        ("io.kubernetes.cri-o.SandboxID", ID),
    ],
    &[
        ("io.kubernetes.cri.container-type", "container"),
        ("io.kubernetes.cri.sandbox-id", POD),
        ("io.kubernetes.cri.sandbox-namespace", "team-b"),
    ],
    &[("nerdctl/name", "n"), ("nerdctl/namespace", "team-b")],
];

impl Chosen {
    /// Returns the containers that a user makes of one, each with what was added.
    fn forged(&self, name: &str) -> Vec<(String, Case)> {
        let mut forged = Vec::new();
        let id = Case::named(name).id().to_owned();
        let mut add = |what: String, change: &dyn Fn(&mut Value)| {
            let mut case = Case::named(name);
            change(&mut case.value["config"]);
            forged.push((what, case));
        };
        let annotate = |config: &mut Value, set: &[(&str, &str)]| {
            for (key, value) in set {
                let value = if *value == ID { id.as_str() } else { *value };
                if config["annotations"].is_null() {
                    config["annotations"] = json!({});
                }
                if !self.own.iter().any(|own| key.starts_with(own)) {
                    config["annotations"][*key] = json!(value);
                }
            }
        };
        let mounts = [
            format!("/evil/containers/{id}/hosts"),
            format!("/evil/overlay-containers/{id}/userdata/hosts"),
            format!("/run/containerd/io.containerd.runtime.v2.task/moby/{id}/config.json"),
            format!("/evil/engines/runc/{id}"),
        ];
        for set in ANNOTATIONS {
            add(format!("{set:?}"), &|config| annotate(config, set));
        }
        for mount in &mounts {
            add(mount.clone(), &|config| {
                let mounts = config["mounts"].as_array_mut().unwrap();
                mounts.push(json!({"destination": "/x", "source": mount}));
            });
        }
        for cgroup in self.cgroups {
            let cgroup = cgroup.replace("ID", &id);
            for set in ANNOTATIONS {
                add(format!("{cgroup} {set:?}"), &|config| {
                    config["linux"]["cgroupsPath"] = json!(cgroup);
                    annotate(config, set);
                });
            }
        }
        if self.root {
            for root in
                ["/evil/overlay2/x/merged".to_owned(), format!("/evil/executor/{id}/rootfs")]
            {
                add(root.clone(), &|config| {
                    config["root"]["path"] = json!(root);
                    let mounts = config["mounts"].as_array_mut().unwrap();
                    let source = format!("/evil/containers/{id}/hosts");
                    mounts.push(json!({"destination": "/x", "source": source}));
                });
            }
        }
        forged
    }
}

#[test]
fn users_of_an_engine_choose_neither_engine_nor_namespace_nor_pod() {
    for chosen in CHOSEN {
        for name in chosen.cases {
            let before = Case::named(name).identity();
            let forged = chosen.forged(name);
            assert!(forged.len() > 10, "{name}");
            for (what, case) in forged {
                let identity = case.identity();
                let of = |identity: &nri_engine::Identity| {
                    let pod = &identity.pod;
                    (identity.engine, identity.role, pod.id.clone(), pod.namespace.clone())
                };
                assert_eq!(of(&identity), of(&before), "{name}: {what}");
            }
        }
    }
}

/// Whoever may call containerd's API chooses its namespace, and with it the engine.
#[test]
fn the_namespace_of_containerd_decides_the_engine() {
    for (namespace, engine) in [
        ("moby", "docker"),
        ("moby-100000.100000", "docker"),
        ("moby-x", "ctr"),
        ("mobyx", "ctr"),
        ("plugins.moby", "ctr"),
        ("default", "ctr"),
        ("k8s.io", "ctr"),
        ("team-b", "ctr"),
    ] {
        let mut case = Case::named("ctr-2.1.9");
        let bundle = format!("/run/containerd/io.containerd.runtime.v2.task/{namespace}/c1");
        case.value["bundle"] = json!(bundle);
        assert_eq!(case.identity().engine.name(), engine, "{namespace}");
    }
}

/// A container that is restored from a checkpoint has all annotations that its user wrote into it.
#[test]
fn a_container_without_podmans_annotation_and_cgroup_is_podmans() {
    let mut case = Case::named("podman-5.8.6");
    case.value["config"]["annotations"] = json!({"io.container.manager": "cri-o"});
    case.value["config"]["linux"]["cgroupsPath"] = json!("");
    assert_eq!(case.identity().engine.name(), "podman");
}

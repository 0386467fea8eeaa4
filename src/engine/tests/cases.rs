//! Checks the identities that are recognized from OCI configs and runtime calls of engines. Each
//! case is a file in `tests/samples`; a case that was recorded from a real engine says so.
//!
//! A case holds the input of the runtime (`config` is the OCI config without irrelevant parts:
//! processes, capabilities, limits, namespaces, kernel file systems), the data that the engine
//! stores elsewhere, and the expected identity before (`identity`) and after (`completed`) the
//! stored data is read. `NRI_REGENERATE=1` rewrites both identities; review the diff.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{Case, cases, to_json};
use nri_engine::{Role, Source};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_case_has_its_recorded_identity() {
    let mut engines = BTreeSet::new();
    for case in cases() {
        let (identity, completed) = (case.identity(), case.completed());
        engines.insert(identity.engine.name());
        let seen = [
            ("identity", Some(to_json(&identity))),
            ("completed", completed.as_ref().map(to_json)),
        ];
        if std::env::var_os("NRI_REGENERATE").is_some() {
            case.write(&seen);
            continue;
        }
        for (key, seen) in seen {
            assert_eq!(
                seen.unwrap_or(Value::Null),
                case.value[key],
                "{}, {key}: {}",
                case.name,
                case.value["about"]
            );
        }
    }
    let all = [
        "buildkit",
        "containerd",
        "cri-o",
        "ctr",
        "docker",
        "isulad",
        "nerdctl",
        "plain",
        "podman",
    ];
    assert_eq!(engines, BTreeSet::from(all));
}

/// Users choose `--cgroup-parent` and `--name`, so neither proves an infra container.
#[test]
fn an_unproven_infra_container_is_an_ordinary_container() {
    for name in [
        "podman-5.8.6-infra",
        "podman-5.8.6-default-infra",
        "podman-5.8.6-default-infra-without-cgroup",
        "podman-pod-infra-named",
        "podman-systemd-infra",
        "podman-pod-infra-without-cgroup",
    ] {
        let case = Case::named(name);
        let mut identity = case.completed().unwrap_or(case.identity());
        assert_eq!(identity.role, Role::Sandbox, "{name}");
        let annotations =
            nri_engine::Map::from([("io.container.manager".to_owned(), "libpod".to_owned())]);
        // The pod may run another program as infra container, so its containers stay in one pod.
        let mut shared = identity.clone();
        nri_engine::podman::reject_infra(&mut shared, case.id(), &annotations, false);
        assert_eq!((shared.role, &*shared.pod.sandbox), (Role::Shared, ""), "{name}");
        assert_eq!(
            (&shared.pod.id, &shared.pod.name),
            (&identity.pod.id, &identity.pod.name),
            "{name}"
        );
        // If another container is the sandbox, the container does not belong to the pod.
        nri_engine::podman::reject_infra(&mut identity, case.id(), &annotations, true);
        assert_eq!(
            (identity.role, &*identity.pod.id, &*identity.pod.sandbox),
            (Role::Alone, case.id(), ""),
            "{name}"
        );
        assert_eq!(identity.pod.annotations, annotations, "{name}");
    }
}

/// The layer directory shows whether a root file system comes from an image: a root file system
/// that the user supplies (`--rootfs`) is elsewhere.
#[test]
fn podmans_layer_directory_is_derived_from_the_bundle() {
    let layers = |bundle: &str| nri_engine::podman::layers(std::path::Path::new(bundle));
    let storage = "/var/lib/containers/storage";
    assert_eq!(
        layers(&format!("{storage}/overlay-containers/id/userdata")),
        Some(format!("{storage}/overlay").into())
    );
    for bundle in ["overlay-containers/id", "overlay-containers/id/data", "overlay/id/userdata", ""]
    {
        assert_eq!(layers(&format!("{storage}/{bundle}")), None, "{bundle}");
    }
}

/// Each pair is an infra container and a member of the same Podman pod.
#[test]
fn infra_containers_and_members_agree_on_the_pod() {
    for (infra, member) in [
        ("podman-4.3.1-infra", "podman-4.3.1-member"),
        ("podman-5.4.2-infra", "podman-5.4.2-member"),
        ("podman-5.8.6-infra", "podman-5.8.6-member"),
        ("podman-5.8.6-default-infra", "podman-5.8.6-default-member"),
        ("podman-pod-infra-named", "podman-pod-member-both"),
        ("podman-pod-infra-named", "podman-pod-member-elsewhere"),
        ("podman-pod-infra-without-cgroup", "podman-pod-member-without-cgroup"),
        ("podman-pod-infra-other-name", "podman-pod-member-other-parent"),
        ("podman-systemd-infra", "podman-systemd-member"),
        ("podman-systemd-infra", "podman-rootless-member"),
        ("podman-without-cgroups-infra", "podman-without-cgroups-member"),
    ] {
        let (infra, member) = (Case::named(infra), Case::named(member));
        for (infra_identity, member_identity) in [
            (infra.identity(), member.identity()),
            (
                infra.completed().unwrap_or(infra.identity()),
                member.completed().unwrap_or(member.identity()),
            ),
        ] {
            let name = &member.name;
            assert_eq!(member_identity.role, Role::Member, "{name}");
            assert_eq!(member_identity.pod.sandbox, infra.id(), "{name}");
            // The member's pod id is the id of the pod or of the infra container.
            let is_same_pod = member_identity.pod.id == infra_identity.pod.id
                || member_identity.pod.id == infra.id();
            assert!(
                is_same_pod,
                "{name}: pods {} and {}",
                infra_identity.pod.id, member_identity.pod.id
            );
        }
    }
}

/// `nrid` opens these paths as root, so users must not be able to redirect them. In the samples,
/// users try to redirect them to `/evil`.
#[test]
fn sources_lie_in_the_directories_of_the_engine() {
    for case in cases() {
        let id = case.id();
        match case.identity().source {
            Some(Source::Docker { dirs }) => {
                assert!(!dirs.is_empty(), "{}", case.name);
                for dir in &dirs {
                    assert!(
                        dir.ends_with(format!("containers/{id}")),
                        "{}: {}",
                        case.name,
                        dir.display()
                    );
                    assert!(!dir.starts_with("/evil"), "{}: {}", case.name, dir.display());
                }
            }
            Some(Source::Podman { lists }) => {
                let mut files = lists.iter().map(|l| l.file_name().unwrap().to_str().unwrap());
                let known = ["containers.json", "volatile-containers.json"];
                assert!(files.all(|f| known.contains(&f)), "{}", case.name);
            }
            Some(Source::Containerd { socket, namespace }) => {
                assert!(socket.is_absolute() && !namespace.is_empty(), "{}", case.name);
            }
            Some(Source::CriO { sandbox }) => {
                let pod = case.identity().pod.id;
                let config = format!("{pod}/userdata/config.json");
                assert!(
                    sandbox.ends_with(config) && !sandbox.starts_with("/evil"),
                    "{}",
                    case.name
                );
            }
            None => {}
        }
    }
}

/// Users of Docker can choose names and labels.
#[test]
fn labels_of_cri_dockerd_are_ignored_unless_cri_dockerd_runs() {
    let case = Case::named("cri-dockerd-sandbox");
    let (mut identity, file) = (case.identity(), case.value["docker"]["config.v2"].to_string());
    nri_engine::docker::complete(&mut identity, case.id(), file.as_bytes(), None, false).unwrap();
    assert_eq!((identity.engine.name(), identity.role), ("docker", Role::Alone));
}

#[test]
fn labels_of_podman_come_from_libpods_configurations() {
    use nri_engine::{Map, podman};
    let map = |key: &str| Map::from([(key.to_owned(), "b".to_owned())]);
    let labels = |key: &str| format!(r#"{{"id":"x","labels":{{"{key}":"b"}}}}"#).into_bytes();
    for (name, pod, of_pod) in [
        ("podman-5.4.2", None, map("own")),
        ("podman-5.4.2-member", Some(labels("pod")), map("pod")),
        ("podman-5.4.2-infra", Some(br#"{"labels":null}"#.to_vec()), Map::new()),
        ("podman-5.4.2-member", None, Map::new()),
    ] {
        let mut identity = Case::named(name).identity();
        let Some(Source::Podman { lists }) = &identity.source else { panic!("{name}") };
        let databases = podman::databases(lists);
        let root = lists[0].parent().unwrap().parent().unwrap();
        assert_eq!(databases[..2], [root.join("db.sql"), root.join("libpod/db.sql")]);
        podman::complete_labels(&mut identity, &labels("own"), pod.as_deref()).unwrap();
        assert_eq!((&identity.labels, &identity.pod.labels), (&map("own"), &of_pod), "{name}");
        let before = identity.clone();
        for (own, pod) in [(&b"{"[..], None), (b"{}", Some(&b"[1]"[..]))] {
            podman::complete_labels(&mut identity, own, pod).unwrap_err();
        }
        assert_eq!(identity, before, "{name}");
    }
}

//! Checks that malformed OCI configs and engine files cause no panic, change no identity, and
//! produce no path outside the engine's directories.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{Case, cases};
use nri_engine::{
    Clues, Identity, Map, Role, Source, Unreadable, containerd, docker, identify, podman,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases);

/// Deeply nested JSON, which overflows the stack of a parser without a depth limit.
fn deep() -> String {
    "[".repeat(200_000) + &"]".repeat(200_000)
}

/// Checks that `complete` fails for the case `name`, with an error that begins with `expected`, and
/// does not change the identity.
#[track_caller]
fn check_error_without_change(
    name: &str,
    complete: impl FnOnce(&mut Identity) -> Result<(), Unreadable>,
    expected: &str,
) {
    let before = Case::named(name).identity();
    let mut identity = before.clone();
    let error = complete(&mut identity).unwrap_err();
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(identity, before);
}

#[test]
fn malformed_docker_files_are_errors() {
    let case = Case::named("docker-28.5.2");
    let good = case.value["docker"]["config.v2"].to_string().into_bytes();
    let check = |id: &str, config: &[u8], host: Option<&[u8]>, expected: &str| {
        check_error_without_change(
            &case.name,
            |identity| docker::complete(identity, id, config, host, true),
            expected,
        );
    };
    check(case.id(), b"", None, "config.v2.json");
    check(case.id(), b"{}", None, "config.v2.json belongs to container \"\"");
    check(case.id(), b"null", None, "config.v2.json");
    check(case.id(), deep().as_bytes(), None, "config.v2.json");
    check(case.id(), format!("{{\"ID\":{}}}", deep()).as_bytes(), None, "config.v2.json");
    check(
        case.id(),
        &vec![b' '; (4 << 20) + 1],
        None,
        "config.v2.json has 4194305 bytes, more than 4194304",
    );
    check("other", &good, None, "config.v2.json belongs to container \"b58d898a");
    check(case.id(), &good, Some(b"{\"Runtime\":1}"), "hostconfig.json");
    check(case.id(), &good, Some(deep().as_bytes()), "hostconfig.json");
}

#[test]
fn malformed_podman_lists_are_errors() {
    let name = "podman-pod-infra-without-cgroup";
    let id = Case::named(name).id().to_owned();
    let check = |list: &str, expected: &str| {
        check_error_without_change(
            name,
            |identity| podman::complete(identity, &id, list.as_bytes()).map(drop),
            expected,
        );
    };
    check("", "list of containers");
    check("{}", "list of containers");
    check("[{}]", "list of containers");
    check(&deep(), "list of containers");
    check(&" ".repeat((16 << 20) + 1), "list of containers has 16777217 bytes");
    check(&json!([{ "id": id, "metadata": "{" }]).to_string(), "metadata of a container");
    check(&json!([{ "id": id, "metadata": deep() }]).to_string(), "metadata of a container");
    let mut identity = Case::named(name).identity();
    let before = identity.clone();
    assert!(!podman::complete(&mut identity, &id, b"[]").unwrap());
    assert_eq!(identity, before);
    // An entry without metadata still has a name.
    let list = json!([{ "id": id, "names": ["web", "other"], "metadata": "" }]).to_string();
    assert!(podman::complete(&mut identity, &id, list.as_bytes()).unwrap());
    assert_eq!((identity.name.as_str(), identity.role), ("web", Role::Alone));
}

#[test]
fn malformed_containerd_extensions_are_errors() {
    let check = |name: &str, extension: &str, bytes: String, expected: &str| {
        let extensions = [(extension.to_owned(), bytes.into_bytes())].into();
        // Labels that must not be added when the extension cannot be parsed.
        let own = containerd::Metadata {
            extensions,
            labels: [("a".into(), "b".into())].into(),
            ..Default::default()
        };
        let sandbox = Some(&own).filter(|_| extension == "io.cri-containerd.sandbox.metadata");
        check_error_without_change(
            name,
            |identity| containerd::complete(identity, &own, sandbox),
            expected,
        );
    };
    for (name, extension) in [
        ("containerd-2.1.9-member", "io.cri-containerd.container.metadata"),
        ("containerd-2.1.9-member", "io.cri-containerd.sandbox.metadata"),
        ("containerd-2.1.9-sandbox", "io.cri-containerd.sandbox.metadata"),
    ] {
        check(name, extension, String::new(), extension);
        check(name, extension, deep(), extension);
        check(
            name,
            extension,
            json!({ "Version": "v1", "Metadata": { "Config": 7 } }).to_string(),
            extension,
        );
        let other = json!({ "Version": "v2", "Metadata": {} }).to_string();
        check(name, extension, other, &format!("{extension} has version \"v2\""));
    }
}

/// An annotation is ignored if it is not JSON of the expected form, or is nested too deeply or too
/// large.
#[test]
fn malformed_json_annotations_are_ignored() {
    let case = Case::named("cri-o-shared");
    let with_annotation = |key: &str, value: &str| {
        let mut case = Case::named("cri-o-shared");
        case.value["config"]["annotations"][key] = json!(value);
        case.identity()
    };
    let good = case.identity();
    for bad in
        ["", "{", "7", "{\"a\":1}", &deep(), &format!("{{\"a\":\"{}\"}}", "a".repeat(1 << 20))]
    {
        let identity = with_annotation("io.kubernetes.cri-o.Labels", bad);
        assert_eq!((identity.labels, identity.pod.name), (Map::new(), good.pod.name.clone()));
        let identity = with_annotation("io.kubernetes.cri-o.Metadata", bad);
        // The labels have the container's name, too.
        assert_eq!(identity.name, good.name);
    }
}

/// Whether a path is absolute and has no `..`.
fn is_absolute_without_parents(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|c| c == Component::ParentDir)
}

/// Checks that role, ids and source paths of an identity are consistent. `id` is the container's.
fn check_consistent(identity: &Identity, id: &str) {
    match identity.role {
        Role::Alone => {
            assert_eq!((identity.pod.id.as_str(), identity.pod.sandbox.as_str()), (id, ""))
        }
        Role::Sandbox => assert_eq!(identity.pod.sandbox, id),
        Role::Shared => assert!(!identity.pod.id.is_empty() && identity.pod.sandbox.is_empty()),
        Role::Member => assert!(!identity.pod.id.is_empty() && identity.pod.sandbox != id),
    }
    match &identity.source {
        Some(Source::Docker { dirs }) => {
            assert!(
                dirs.iter().all(|d| is_absolute_without_parents(d)
                    && d.ends_with(Path::new("containers").join(id)))
            );
        }
        Some(Source::Podman { lists }) => {
            assert!(lists.iter().all(|l| is_absolute_without_parents(l)))
        }
        Some(Source::Containerd { socket, .. }) => assert!(is_absolute_without_parents(socket)),
        Some(Source::CriO { sandbox }) => assert!(is_absolute_without_parents(sandbox)),
        None => {}
    }
}

/// Generates words: path components and values that recognition looks for, and random text.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "..",
            ".",
            "c1",
            "moby",
            "containers",
            "hosts",
            "userdata",
            "overlay-containers",
            "engines",
            "executor",
            "io.containerd.runtime.v2.task",
            "buildkit",
            "libpod-c1",
            "libpod",
            "isulad",
            "rootfs",
            "merged",
        ])
        .prop_map(str::to_owned),
        "[a-z0-9.:_/\\\\\u{e9}-]{0,6}",
        "[0-9a-f]{64}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(word(), 0..6)).prop_map(|(absolute, words)| {
        format!("{}{}", if absolute { "/" } else { "" }, words.join("/"))
    })
}

fn annotations() -> impl Strategy<Value = Map> {
    let key = prop::sample::select(vec![
        "io.container.manager",
        "io.kubernetes.cri.container-type",
        "io.kubernetes.cri.sandbox-id",
        "io.kubernetes.cri-o.ContainerType",
        "io.kubernetes.cri-o.SandboxID",
        "io.kubernetes.cri-o.SandboxName",
        "io.kubernetes.cri-o.Labels",
        "io.kubernetes.cri-o.Annotations",
        "io.kubernetes.cri-o.Metadata",
        "io.podman.annotations.autoremove",
        "nerdctl/name",
        "x",
    ]);
    let known = vec![
        "libpod",
        "cri-o",
        "sandbox",
        "container",
        "c1",
        "{}",
        "null",
        "{\"name\":\"n\"}",
        "k8s_a_b_c_0",
        "TRUE",
    ];
    let value = prop_oneof![prop::sample::select(known).prop_map(str::to_owned), ".{0,8}", word()];
    prop::collection::btree_map(key.prop_map(str::to_owned), value, 0..8)
}

fn environment() -> impl Strategy<Value = Map> {
    let key = prop::sample::select(vec!["GRPC_ADDRESS", "TTRPC_ADDRESS", "NAMESPACE"]);
    prop::collection::btree_map(key.prop_map(str::to_owned), path(), 0..3)
}

fn junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({ "a": "b" })),
    ]
}

/// Replaces the value at the position that `steps` select with junk.
fn corrupt(value: &mut Value, steps: &[usize], junk: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *value = junk;
        return;
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let index = step % fields.len();
            corrupt(fields.values_mut().nth(index).unwrap(), rest, junk);
        }
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            corrupt(&mut items[index], rest, junk);
        }
        other => *other = junk,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_clues_cause_no_panic(
        id in prop_oneof![3 => Just("c1".to_owned()), 1 => word()],
        annotations in annotations(),
        cgroups_path in prop_oneof![path(), "[a-z.-]{0,6}:[a-z]{0,6}:c1"],
        (bundle, root, runtime_root) in (path(), path(), path()),
        mounts in prop::collection::vec(path(), 0..4),
        environment in environment(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mounts: Vec<PathBuf> = mounts.into_iter().map(PathBuf::from).collect();
        let mut identity = identify(&Clues {
            id: &id,
            annotations: &annotations,
            bundle: Path::new(&bundle),
            cgroups_path: &cgroups_path,
            hostname: &root,
            root: Path::new(&root),
            mounts: &mounts,
            runtime_root: Some(Path::new(&runtime_root)),
            environment: &environment,
        });
        check_consistent(&identity, &id);
        let before = identity.clone();
        let podman = podman::complete(&mut identity, &id, &bytes);
        let docker = docker::complete(&mut identity, &id, &bytes, None, true);
        if podman.is_err() && docker.is_err() {
            prop_assert_eq!(&identity, &before);
        }
    }

    #[test]
    fn corrupted_cases_cause_no_panic(
        case in any::<prop::sample::Index>(),
        steps in prop::collection::vec(any::<usize>(), 1..8),
        junk in junk(),
    ) {
        let mut corrupted = Case::named(&case.get(&CASES).name);
        let id = corrupted.id().to_owned();
        for key in ["config", "docker", "podman", "containerd"] {
            if let Some(part) = corrupted.value.get_mut(key) {
                corrupt(part, &steps, junk.clone());
            }
        }
        check_consistent(&corrupted.identity(), &id);
        if let Ok(identity) = corrupted.try_completed() {
            check_consistent(&identity, &id);
        }
    }
}

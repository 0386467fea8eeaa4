//! Tests of the merged adjustment, the container that later plugins see, and the reported conflict.

use crate::cases::{CONTAINER, adjusting, check, create, message, plugin, refuse};
use nri_api::proto::{Container, ContainerUpdate, CreateContainerResponse, Field};
use nri_merge::{CreateMerge, MergeError};

const A: &str = "00-a";
const B: &str = "10-b";

#[test]
fn an_empty_reply_changes_nothing() {
    let outcome = create(&[
        (A, "{}"),
        (B, r#"{"hooks": {}, "linux": {"resources": {"cpu": {}}, "rdt": {}}}"#),
    ])
    .unwrap();
    assert_eq!(outcome.adjust, Default::default());
    assert_eq!(outcome.owners, Default::default());
    assert_eq!(outcome.container, message(CONTAINER));
    assert_eq!(outcome.pristine, outcome.container);
    assert_eq!(outcome.consulted, [plugin(A), plugin(B)]);
    assert!(outcome.updates.is_empty() && outcome.evictions.is_empty());
}

#[test]
fn later_plugins_receive_the_container_with_earlier_adjustments() {
    let seen = |reply: &str| create(&[(A, reply)]).unwrap().container;
    let check = |reply: &str, expected: &str| {
        // `expected` has only the fields that change; the others are as in `CONTAINER`.
        let mut container: Container = message(CONTAINER);
        let expected: Container = message(expected);
        let nothing = Container::new();
        macro_rules! replace {
            ($($field:ident),*) => {$(
                if expected.$field != nothing.$field { container.$field = expected.$field; }
            )*};
        }
        replace!(annotations, mounts, env, rlimits, hooks);
        assert_eq!(seen(reply), container, "{reply}");
    };
    check(
        r#"{"annotations": {"b": "1", "c": "1"}}"#,
        r#"{"annotations": {"a": "0", "b": "1", "c": "1"}}"#,
    );
    check(
        r#"{"env": [{"key": "N", "value": "1"}, {"key": "BARE"}, {"key": "PATH",
            "value": "a=b"}]}"#,
        r#"{"env": ["PATH=a=b", "BARE", "X=0", "N=1", "BARE="]}"#,
    );
    check(
        r#"{"mounts": [{"destination": "/data", "source": "/new"}, {"destination": "/data/"}]}"#,
        r#"{"mounts": [{"destination": "/proc"}, {"destination": "/data", "source": "/new"},
            {"destination": "/data/"}]}"#,
    );
    check(
        r#"{"rlimits": [{"type": "RLIMIT_CORE", "hard": 9}, {"type": "RLIMIT_CPU"}]}"#,
        r#"{"rlimits": [{"type": "RLIMIT_CORE", "hard": 9}, {"type": "RLIMIT_CPU"}]}"#,
    );
    check(
        r#"{"hooks": {"prestart": [{"path": "/p"}], "poststop": [{"path": "/q"}]}}"#,
        r#"{"hooks": {"prestart": [{"path": "/old"}, {"path": "/p"}],
            "poststop": [{"path": "/q"}]}}"#,
    );
    let resources = seen(
        r#"{"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 7},
            {"pageSize": "1GB", "limit": 8}],
            "memory": {"swap": {"value": 6}}, "devices": [{"allow": true}]}}}"#,
    );
    assert_eq!(
        resources.linux.unwrap().resources.unwrap(),
        message(
            r#"{"memory": {"limit": {"value": 5}, "swap": {"value": 6}},
                "devices": [{"allow": true}],
            "hugepageLimits": [{"pageSize": "2MB", "limit": 7}, {"pageSize": "1GB", "limit": 8}]}"#
        )
    );
    let namespaces = seen(
        r#"{"linux": {"namespaces": [{"type": "uts"}, {"type": "pid", "path": "/p"},
            {"type": "-network"}]}}"#,
    );
    let namespaces: Vec<_> =
        namespaces.linux.namespaces.iter().map(|n| (n.type_.as_str(), n.path.as_str())).collect();
    assert_eq!(namespaces, [("pid", "/p"), ("uts", "")]);
}

#[test]
fn hooks_and_device_rules_are_appended() {
    check(
        &[
            (
                A,
                r#"{"hooks": {"prestart": [{"path": "/a"}]},
                    "linux": {"resources": {"devices": [{"type": "a"}]}}}"#,
            ),
            (
                B,
                r#"{"hooks": {"prestart": [{"path": "/b"}]},
                    "linux": {"resources": {"devices": [{"type": "b"}]}}}"#,
            ),
        ],
        r#"{"hooks": {"prestart": [{"path": "/a"}, {"path": "/b"}]},
            "linux": {"resources": {"devices": [{"type": "a"}, {"type": "b"}]}}}"#,
        r#"{"simple": {"3": "00-a,10-b"}}"#,
    );
}

#[test]
fn only_the_first_of_several_conflicts_is_reported() {
    let all = r#"{
        "annotations": {"z": "", "b": "", "c": ""}, "env": [{"key": "E"}],
        "CDIDevices": [{"name": "v/c=d"}],
        "linux": {"resources": {"unified": {"u": "1", "t": "1"}, "pids": {"limit": 1},
        "rdtClass": {}}, "rdt": {"schemata": {}}}}"#;
    let order = [
        (r#"{"annotations": {"z": "", "c": ""}}"#, "annotations[c]"),
        (r#"{"CDIDevices": [{"name": "v/c=d"}], "env": [{"key": "E"}]}"#, "env[E]"),
        (
            r#"{"linux": {"resources": {"pids": {}, "rdtClass": {}, "unified": {"u": "",
                "t": ""}}}}"#,
            "unified[t]",
        ),
        (r#"{"linux": {"resources": {"pids": {}, "rdtClass": {"value": "x"}}}}"#, "rdt_class"),
        (
            r#"{"CDIDevices": [{"name": "v/c=d"}], "linux": {"rdt": {"schemata": {}},
                "resources": {"pids": {}}}}"#,
            "pids.limit",
        ),
        (
            r#"{"CDIDevices": [{"name": "v/c=d"}], "linux": {"rdt": {"schemata": {}}}}"#,
            "rdt.schemata",
        ),
        (r#"{"CDIDevices": [{"name": "v/c=d"}]}"#, "cdi_devices[v/c=d]"),
    ];
    for (second, what) in order {
        refuse(
            &[(A, all), (B, second)],
            &format!("plugins \"10-b\" and \"00-a\" both tried to set {what}"),
        );
    }
}

#[test]
fn a_conflict_names_plugins_field_key_and_container() {
    let error =
        create(&[(A, r#"{"annotations": {"k": ""}}"#), (B, r#"{"annotations": {"k": ""}}"#)])
            .unwrap_err();
    let expected = MergeError::Conflict {
        plugin: plugin(B),
        owner: plugin(A),
        field: Field::Annotations,
        key: Some("k".to_owned()),
        container: "me".to_owned(),
    };
    assert_eq!(error, expected);
    assert_eq!((error.plugin(), error.container()), (&plugin(B), "me"));
}

#[test]
fn a_refused_reply_changes_nothing() {
    let mut merge = CreateMerge::new(Default::default(), message(CONTAINER));
    merge.reply(&plugin(A), adjusting(r#"{"CDIDevices": [{"name": "d"}]}"#)).unwrap();
    let before = merge.clone();
    // CDI devices are claimed last, so the other claims of this reply succeed before the conflict.
    let conflicting_cdi =
        r#"{"annotations": {"n": ""}, "args": ["", "x"], "CDIDevices": [{"name": "d"}]}"#;
    merge.reply(&plugin(B), adjusting(conflicting_cdi)).unwrap_err();
    assert_eq!(merge, before);
    let mut updating = adjusting(r#"{"annotations": {"n": ""}}"#);
    updating.update = vec![
        message(r#"{"containerId": "c1", "linux": {"resources": {"pids": {}}}}"#),
        message(r#"{"containerId": "me", "ignoreFailure": true}"#),
    ];
    let error = merge.reply(&plugin(B), updating).unwrap_err();
    assert_eq!(error.to_string(), "plugin \"10-b\" asked update of \"me\" during creation");
    assert_eq!(merge, before);
    let evicting = CreateContainerResponse {
        evict: vec![message(r#"{"containerId": "me"}"#)],
        ..adjusting(r#"{"annotations": {"n": ""}}"#)
    };
    let error = merge.reply(&plugin(B), evicting).unwrap_err();
    assert_eq!(error.to_string(), "plugin \"10-b\" asked eviction of \"me\" during creation");
    assert_eq!(merge, before);
}

#[test]
fn a_reply_can_update_and_evict_other_containers() {
    let mut merge = CreateMerge::new(Default::default(), message(CONTAINER));
    let reply = |reason: &str| CreateContainerResponse {
        update: vec![message(r#"{"containerId": "c2"}"#), message(r#"{"containerId": "c1"}"#)],
        evict: vec![message(&format!(r#"{{"containerId": "c3", "reason": "{reason}"}}"#))],
        ..Default::default()
    };
    for (id, reason) in [(A, ""), (B, "first"), (B, "second")] {
        merge.reply(&plugin(id), reply(reason)).unwrap();
    }
    let outcome = merge.finish();
    let ids: Vec<_> =
        outcome.updates.iter().map(|u: &ContainerUpdate| u.container_id.as_str()).collect();
    assert_eq!(ids, ["c2", "c1"]);
    assert_eq!(outcome.evictions, [message(r#"{"containerId": "c3", "reason": "first"}"#)]);
    assert_eq!(outcome.evictors["c3"], plugin(A));
    let validation = outcome.validation();
    assert_eq!(*validation.container, outcome.pristine);
    assert_eq!(validation.plugins.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn parts_without_effect_are_reported() {
    use protobuf::Message;
    let mut reply = adjusting(
        r#"{"mounts": [{"destination": "/m"}], "linux": {"netDevices": {"e": {}},
            "resources": {"memory": {"limit": {}}}}}"#,
    );
    let adjust = reply.adjust.mut_or_insert_default();
    adjust.mut_unknown_fields().add_varint(99, 1);
    adjust.mounts[0].mut_unknown_fields().add_varint(98, 1);
    let linux = adjust.linux.mut_or_insert_default();
    linux.net_devices.get_mut("e").unwrap().mut_unknown_fields().add_varint(97, 1);
    reply.update = vec![message(
        r#"{"containerId": "c", "linux": {"resources": {"devices": [{"allow": true}]}}}"#,
    )];
    let mut merge = CreateMerge::new(Default::default(), message(CONTAINER));
    merge.reply(&plugin(A), reply).unwrap();
    let ignored: Vec<_> =
        merge.finish().ignored.into_iter().map(|i| (i.container, i.what)).collect();
    let expected = [
        ("c", "update.linux.resources.devices"),
        ("me", "adjust.linux.resources.memory.limit: a limit of 0 is ignored"),
        ("me", "adjust.99"),
        ("me", "adjust.mounts.98"),
        ("me", "adjust.linux.net_devices.97"),
    ];
    assert_eq!(ignored, expected.map(|(c, what)| (c.to_owned(), what.to_owned())));
}

//! Tests of removal markers, and of the claims on removed keys.

use crate::cases::{CONTAINER, adjusting, check, create, message, plugin, refuse};
use nri_api::proto::{Container, Field, LinuxRdt};
use nri_merge::CreateMerge;

/// A group of fields in which a removal takes over the claim, with replies that set the key `K`,
/// remove it, and do both. `field` is the number of the field, and `name` its name in errors.
struct Group {
    field: &'static str,
    name: &'static str,
    set: &'static str,
    remove: &'static str,
    both: &'static str,
}

const GROUPS: &[Group] = &[
    Group {
        field: "1",
        name: "annotations",
        set: r#"{"annotations": {"K": "V"}}"#,
        remove: r#"{"annotations": {"-K": ""}}"#,
        both: r#"{"annotations": {"K": "V", "-K": ""}}"#,
    },
    Group {
        field: "2",
        name: "mounts",
        set: r#"{"mounts": [{"destination": "K", "source": "V"}]}"#,
        remove: r#"{"mounts": [{"destination": "-K"}]}"#,
        both: r#"{"mounts": [{"destination": "K", "source": "V"}, {"destination": "-K"}]}"#,
    },
    Group {
        field: "6",
        name: "env",
        set: r#"{"env": [{"key": "K", "value": "V"}]}"#,
        remove: r#"{"env": [{"key": "-K"}]}"#,
        both: r#"{"env": [{"key": "-K"}, {"key": "K", "value": "V"}]}"#,
    },
    Group {
        field: "4",
        name: "devices",
        set: r#"{"linux": {"devices": [{"path": "K", "type": "V"}]}}"#,
        remove: r#"{"linux": {"devices": [{"path": "-K"}]}}"#,
        both: r#"{"linux": {"devices": [{"path": "-K"}, {"path": "K", "type": "V"}]}}"#,
    },
    Group {
        field: "34",
        name: "sysctl",
        set: r#"{"linux": {"sysctl": {"K": "V"}}}"#,
        remove: r#"{"linux": {"sysctl": {"-K": ""}}}"#,
        both: r#"{"linux": {"sysctl": {"-K": "", "K": "V"}}}"#,
    },
    Group {
        field: "35",
        name: "net_devices",
        set: r#"{"linux": {"netDevices": {"K": {"name": "V"}}}}"#,
        remove: r#"{"linux": {"netDevices": {"-K": {}}}}"#,
        both: r#"{"linux": {"netDevices": {"-K": {}, "K": {"name": "V"}}}}"#,
    },
];

const A: &str = "00-a";
const B: &str = "10-b";
const C: &str = "20-c";

#[test]
fn the_plugin_that_removes_a_key_takes_over_its_claim() {
    for Group { field, name, set, remove, both } in GROUPS {
        let by = |owner: &str| {
            format!(r#"{{"compound": {{"{field}": {{"owners": {{"K": "{owner}"}}}}}}}}"#)
        };
        check(&[(A, set)], set, &by(A));
        // No plugin set the key: it has no owner, and the container's value is removed.
        check(&[(A, remove)], remove, "");
        check(&[(A, remove), (B, remove)], remove, "");
        check(&[(A, remove), (B, set)], set, &by(B));
        // A key that is removed and set in one reply is set, whatever the order.
        check(&[(A, both)], set, &by(A));
        check(&[(A, set), (B, both)], set, &by(B));
        check(&[(A, set), (B, both), (C, both)], set, &by(C));
        // Another plugin removes the key: it is removed from the container too, and only the
        // plugin that removed it may set it.
        check(&[(A, set), (B, remove)], remove, &by("-10-b"));
        check(&[(A, set), (B, remove), (B, set)], set, &by(B));
        check(&[(A, set), (B, remove), (C, remove)], remove, &by("-10-b"));
        for third in [set, both] {
            refuse(
                &[(A, set), (B, remove), (C, third)],
                &format!("plugins \"20-c\" and \"10-b\" both tried to set {name}[K]"),
            );
        }
        // Without a removal a second claim is a conflict, even by the same plugin.
        refuse(
            &[(A, set), (B, set)],
            &format!("plugins \"10-b\" and \"00-a\" both tried to set {name}[K]"),
        );
        refuse(
            &[(A, set), (A, set)],
            &format!("plugins \"00-a\" and \"00-a\" both tried to set {name}[K]"),
        );
    }
}

#[test]
fn later_plugins_do_not_see_removed_keys() {
    let original: Container = message(CONTAINER);
    let merge = |reply: &str| create(&[(A, reply)]).unwrap().container;
    let seen = merge(
        r#"{
        "annotations": {"-a": ""}, "mounts": [{"destination": "-/proc"}],
        "env": [{"key": "-BARE"}, {"key": "-PATH"}],
        "linux": {
            "devices": [{"path": "-/dev/a"}], "sysctl": {"-s.a": ""}, "netDevices": {"-eth0": {}},
            "namespaces": [{"type": "-network"}], "rdt": {"remove": true}
        }}"#,
    );
    let mut expected = original.clone();
    expected.annotations.remove("a");
    expected.mounts.remove(0);
    expected.env = vec!["BARE".to_owned(), "X=0".to_owned()];
    let linux = expected.linux.mut_or_insert_default();
    linux.devices.clear();
    linux.sysctl.clear();
    linux.net_devices.clear();
    linux.namespaces.pop();
    linux.rdt.take();
    assert_eq!(seen, expected);
}

#[test]
fn the_removal_of_a_name_with_a_leading_dash_is_kept_beside_another_removal() {
    for (two, other) in [
        (r#"{"annotations": {"-K": "", "--K": ""}}"#, r#"{"annotations": {"--K": ""}}"#),
        (
            r#"{"linux": {"sysctl": {"-K": "", "--K": ""}}}"#,
            r#"{"linux": {"sysctl": {"--K": ""}}}"#,
        ),
        (
            r#"{"linux": {"netDevices": {"-K": {}, "--K": {}}}}"#,
            r#"{"linux": {"netDevices": {"--K": {}}}}"#,
        ),
    ] {
        check(&[(A, two)], two, "");
        check(&[(A, two), (B, other)], two, "");
        check(&[(A, other), (B, two)], two, "");
    }
    let lists = r#"{"env": [{"key": "--K"}, {"key": "-K"}], "mounts": [{"destination": "--K"},
        {"destination": "-K"}]}"#;
    check(&[(A, lists)], lists, "");
}

#[test]
fn a_dash_alone_is_a_key() {
    check(
        &[(A, r#"{"env": [{"key": "-", "value": "v"}]}"#)],
        r#"{"env": [{"key": "-", "value": "v"}]}"#,
        r#"{"compound": {"6": {"owners": {"-": "00-a"}}}}"#,
    );
    // `-` is a key, and not the removal of the empty key, which another plugin sets.
    check(
        &[(A, r#"{"annotations": {"-": "v"}}"#), (B, r#"{"annotations": {"": "w"}}"#)],
        r#"{"annotations": {"-": "v", "": "w"}}"#,
        r#"{"compound": {"1": {"owners": {"-": "00-a", "": "10-b"}}}}"#,
    );
}

#[test]
fn removing_a_namespace_is_a_claim() {
    let (set, remove) = (
        r#"{"linux": {"namespaces": [{"type": "K"}]}}"#,
        r#"{"linux": {"namespaces": [{"type": "-K"}]}}"#,
    );
    let owner = |id| format!(r#"{{"compound": {{"33": {{"owners": {{"K": "{id}"}}}}}}}}"#);
    check(&[(A, set)], set, &owner(A));
    check(&[(A, remove)], remove, &owner(A));
    let conflict = "plugins \"10-b\" and \"00-a\" both tried to set namespaces[K]";
    refuse(&[(A, set), (B, remove)], conflict);
    refuse(&[(A, remove), (B, set)], conflict);
    refuse(&[(A, remove), (B, remove)], conflict);
}

#[test]
fn args_with_a_leading_empty_string_replace_those_of_an_earlier_plugin() {
    let (a, b, restore) = (r#"{"args": ["x"]}"#, r#"{"args": ["", "y", ""]}"#, r#"{"args": [""]}"#);
    check(&[(A, a)], a, r#"{"simple": {"7": "00-a"}}"#);
    check(&[(A, a), (B, b)], r#"{"args": ["y", ""]}"#, r#"{"simple": {"7": "10-b"}}"#);
    check(&[(A, b), (B, b)], r#"{"args": ["y", ""]}"#, r#"{"simple": {"7": "10-b"}}"#);
    refuse(&[(A, a), (B, a)], "plugins \"10-b\" and \"00-a\" both tried to set args");
    // Without further arguments the empty string restores the arguments of the engine.
    check(&[(A, a), (B, restore)], "{}", r#"{"simple": {"7": "-10-b"}}"#);
    assert_eq!(create(&[(A, a), (B, restore)]).unwrap().container.args, ["sh"]);
    // Several empty strings are one marker, so no argument of the outcome looks like a marker.
    check(
        &[(A, a), (B, r#"{"args": ["", "", "y"]}"#)],
        r#"{"args": ["y"]}"#,
        r#"{"simple": {"7": "10-b"}}"#,
    );
    assert_eq!(create(&[(A, r#"{"args": ["", ""]}"#)]).unwrap().container.args, ["sh"]);
    refuse(&[(A, a), (B, restore), (C, a)], "plugins \"20-c\" and \"10-b\" both tried to set args");
}

#[test]
fn the_removal_of_rdt_takes_over_all_three_claims() {
    let set =
        r#"{"linux": {"rdt": {"closId": {"value": "x"}, "enableMonitoring": {"value": false}}}}"#;
    let remove = r#"{"linux": {"rdt": {"remove": true}}}"#;
    let both = r#"{"linux": {"rdt": {"remove": true, "schemata": {"value": ["L3:0=f"]}}}}"#;
    check(&[(A, set)], set, r#"{"simple": {"37": "00-a", "39": "00-a"}}"#);
    check(
        &[(A, set), (B, remove)],
        remove,
        r#"{"simple": {"37": "-10-b", "38": "-10-b", "39": "-10-b"}}"#,
    );
    check(
        &[(A, set), (B, both)],
        r#"{"linux": {"rdt": {"schemata": {"value": ["L3:0=f"]}}}}"#,
        r#"{"simple": {"37": "-10-b", "38": "10-b", "39": "-10-b"}}"#,
    );
    refuse(&[(A, remove), (B, set)], "plugins \"10-b\" and \"00-a\" both tried to set rdt.closID");
    // Later plugins see the container's values, overlaid with the values that plugins set.
    let seen = create(&[(A, set), (B, both)]).unwrap().container;
    assert_eq!(
        *seen.linux.rdt,
        message::<LinuxRdt>(r#"{"closId": {"value": "old"}, "schemata": {"value": ["L3:0=f"]}}"#)
    );
}

#[test]
fn the_last_plugin_that_removed_an_entry_is_known() {
    let removals = r#"{"annotations": {"-k": ""}, "mounts": [{"destination": "-k"}],
        "env": [{"key": "-k"}], "linux": {"devices": [{"path": "-k"}], "sysctl": {"-k": ""},
        "netDevices": {"-k": {}}}}"#;
    let mut merge = CreateMerge::new(Default::default(), message(CONTAINER));
    merge.reply(&plugin(A), adjusting(removals)).unwrap();
    merge.reply(&plugin(B), adjusting(r#"{"args": ["x"], "annotations": {"-k": ""}}"#)).unwrap();
    let refused =
        merge.reply(&plugin("20-c"), adjusting(r#"{"args": ["x"], "env": [{"key": "-k"}]}"#));
    refused.unwrap_err();
    let unowned = merge.finish().unowned;
    assert_eq!(unowned.remover(Field::Annotations, "k"), Some(&plugin(B)));
    for field in [Field::Mounts, Field::Env, Field::Devices, Field::Sysctl, Field::LinuxNetDevices]
    {
        assert_eq!(unowned.remover(field, "k"), Some(&plugin(A)), "{field:?}");
        assert_eq!(unowned.remover(field, "other"), None);
    }
}

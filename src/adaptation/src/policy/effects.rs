//! Table of the effects of field groups: which other groups reach the effect of a denied group, and
//! which groups equal root on the host. Tests compare the table with the checks, and with the table
//! in `docs/reference/security.md`.

use crate::policy::fields::tests::each_field;
use crate::policy::fields::{RESOURCES, field_groups, group_of};
use crate::policy::permissions::Permissions;
use crate::policy::plugin_policy::PluginPolicy;
use crate::policy::reply_check::ReplyCheck;
use nri_api::PluginId;
use nri_api::proto::{ContainerAdjustment, CreateContainerResponse};
use protobuf::MessageField;
use std::collections::BTreeSet;

/// A field group, and other ways to reach its effect.
#[derive(Clone, Copy)]
struct Effect {
    group: &'static str,
    /// Whether the group alone makes a plugin root on the host. A group with `Yes` reaches the
    /// effect of every other group.
    root: Root,
    /// Fields of other groups with the same effect. If the group is denied, they are refused, too.
    refused: &'static [&'static str],
    /// Prefixes of keys of `unified` with the same effect. If the group is denied, they are
    /// refused, too.
    unified: &'static [&'static str],
    /// Groups that reach some of the effect, and that are permitted when the group is denied.
    permitted: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Yes,
    /// In a privileged container, whose processes equal root on the host anyway.
    IfPrivileged,
    No,
}

const NONE: Effect =
    Effect { group: "", root: Root::No, refused: &[], unified: &[], permitted: &[] };

/// The groups that have more than the effect of their own fields.
const EFFECTS: &[Effect] = &[
    Effect { group: "args", root: Root::IfPrivileged, permitted: &["env"], ..NONE },
    // `cdi_devices` is not root: CDI specifications may have mounts, devices, hooks and variables,
    // but only root can write them.
    Effect {
        group: "devices",
        root: Root::Yes,
        refused: &["linux.resources.devices"],
        permitted: &["cdi_devices"],
        ..NONE
    },
    Effect { group: "env", root: Root::IfPrivileged, permitted: &["args", "cdi_devices"], ..NONE },
    // A memory limit below the usage of a container kills the container.
    Effect { group: "evict", permitted: &["update"], ..NONE },
    Effect { group: "hooks", root: Root::Yes, permitted: &["cdi_devices"], ..NONE },
    Effect { group: "io_priority", permitted: &["resources.blockio_class"], ..NONE },
    Effect { group: "memory_policy", permitted: &["resources.cpu"], ..NONE },
    Effect { group: "mounts", root: Root::Yes, permitted: &["cdi_devices"], ..NONE },
    Effect { group: "namespaces", root: Root::Yes, ..NONE },
    Effect { group: "oom_score_adj", permitted: &["resources.memory"], ..NONE },
    Effect { group: "rdt", refused: &["linux.resources.rdt_class"], ..NONE },
    Effect {
        group: RESOURCES,
        refused: &["linux.rdt.clos_id", "linux.rdt.remove"],
        permitted: &["cgroups_path"],
        ..NONE
    },
    Effect { group: "resources.blockio_class", unified: &["io."], ..NONE },
    Effect {
        group: "resources.cpu",
        unified: &["cpu.", "cpuset."],
        permitted: &["cgroups_path", "scheduler"],
        ..NONE
    },
    Effect { group: "resources.devices", root: Root::Yes, ..NONE },
    Effect {
        group: "resources.hugepages",
        unified: &["hugetlb."],
        permitted: &["cgroups_path"],
        ..NONE
    },
    Effect {
        group: "resources.memory",
        unified: &["memory."],
        permitted: &["cgroups_path"],
        ..NONE
    },
    Effect { group: "resources.pids", unified: &["pids."], permitted: &["cgroups_path"], ..NONE },
    Effect {
        group: "resources.rdt_class",
        refused: &["linux.rdt.clos_id", "linux.rdt.remove"],
        ..NONE
    },
    Effect {
        group: "resources.unified",
        permitted: &["resources.memory", "resources.cpu", "resources.pids", "resources.hugepages"],
        ..NONE
    },
    Effect { group: "runtime_annotations", root: Root::Yes, ..NONE },
    Effect { group: "scheduler", permitted: &["resources.cpu"], ..NONE },
    // `update` reaches more than its container: limits of a cgroup hold for all cgroups below it.
];

/// Returns the effects of all groups.
fn effects() -> impl Iterator<Item = Effect> {
    let of =
        |group| *EFFECTS.iter().find(|e| e.group == group).unwrap_or(&Effect { group, ..NONE });
    field_groups().into_iter().map(of)
}

/// Whether a policy that denies one group refuses an adjustment.
fn is_refused(denied: &str, adjust: &ContainerAdjustment) -> bool {
    let permissions = Permissions::new(None::<[&str; 0]>, [denied]).unwrap();
    let policy = PluginPolicy { plugin: "a".into(), permissions, ..PluginPolicy::default() };
    let plugin = PluginId::new("10", "a").unwrap();
    let reply = CreateContainerResponse {
        adjust: MessageField::some(adjust.clone()),
        ..Default::default()
    };
    ReplyCheck { plugin: &plugin, policy: policy.into() }.check_creation("c", &reply).is_err()
}

/// Whether a field's group is `group`, or part of `resources` if `group` is that.
fn is_in(group: &str, field_group: &str) -> bool {
    group == field_group || (group == RESOURCES && field_group.starts_with("resources."))
}

#[test]
fn the_table_names_only_groups_and_each_once() {
    let groups = field_groups();
    let named: BTreeSet<_> = EFFECTS.iter().map(|effect| effect.group).collect();
    assert!(named.len() == EFFECTS.len() && named.is_subset(&groups), "{named:?}");
    for effect in EFFECTS {
        for other in effect.permitted {
            assert!(groups.contains(other) && *other != effect.group, "{}", effect.group);
        }
    }
}

#[test]
fn a_denied_group_refuses_every_field_with_its_effect_and_no_other() {
    each_field(&mut |path, adjust| {
        for effect in effects() {
            let of_group = is_in(effect.group, group_of(path).unwrap());
            let expected = of_group || effect.refused.contains(&path);
            assert_eq!(is_refused(effect.group, adjust), expected, "{} {path}", effect.group);
        }
    });
}

#[test]
fn a_denied_group_refuses_every_key_of_unified_with_its_effect_and_no_other() {
    let prefixes: Vec<_> =
        EFFECTS.iter().flat_map(|e| e.unified).chain(&["rdma.", "misc."]).collect();
    for prefix in prefixes {
        let mut adjust = ContainerAdjustment::new();
        let resources = adjust.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.unified.insert(format!("{prefix}max"), "1".into());
        for effect in effects() {
            let of_group = is_in(effect.group, "resources.unified");
            let expected = of_group || effect.unified.contains(prefix);
            assert_eq!(is_refused(effect.group, &adjust), expected, "{} {prefix}", effect.group);
        }
    }
}

/// The documentation has one row for each group: `| group | effect | root |`.
#[test]
fn the_documentation_says_which_groups_equal_root() {
    let text = include_str!("../../../../docs/reference/security.md");
    let rows: BTreeSet<(&str, &str)> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [group, _, root] = cells.as_slice() else { return None };
            let group = group.strip_prefix('`')?.strip_suffix('`')?;
            Some((*field_groups().get(group)?, *root))
        })
        .collect();
    let expected = effects().map(|effect| {
        let root = match effect.root {
            Root::Yes => "yes",
            Root::IfPrivileged => "in a privileged container",
            Root::No => "no",
        };
        (effect.group, root)
    });
    assert_eq!(rows, expected.collect());
}

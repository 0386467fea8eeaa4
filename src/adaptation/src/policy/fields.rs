//! Field groups: each permission covers one group of protocol fields.
//!
//! The fields that a reply sets are found by the tables of the protocol's messages, and their
//! groups by the table of fields. A field that it lacks is refused to plugins with restricted
//! permissions, not silently permitted.

use nri_api::{
    FieldRow, Packed, fields,
    proto::{ContainerAdjustment, LinuxResources},
};
use std::collections::BTreeSet;

/// Group of updates of containers other than the one that an event is about.
pub(crate) const UPDATE: &str = "update";
/// Group of evictions.
pub(crate) const EVICT: &str = "evict";
/// Group of annotations that runtimes act on; needed in addition to `annotations`.
pub(crate) const RUNTIME_ANNOTATIONS: &str = "runtime_annotations";
/// Group that stands for all `resources.*` groups, except that allowing it does not allow
/// [`RESOURCES_DEVICES`].
pub(crate) const RESOURCES: &str = "resources";
/// Group of the device rules of the cgroup, which open every device of the host to a container that
/// may create device nodes.
pub(crate) const RESOURCES_DEVICES: &str = "resources.devices";

/// Fields that have the effect of another group: if that group is denied, the field is denied, too.
const SAME_EFFECT: &[(&str, &str)] = &[
    ("linux.resources.devices", "devices"),
    // The class of `rdt_class` becomes the `closID`.
    ("linux.resources.rdt_class", "rdt"),
    ("linux.rdt.clos_id", "resources.rdt_class"),
    ("linux.rdt.remove", "resources.rdt_class"),
];

/// Path of the resources in `ContainerAdjustment`; an update has the same fields below it.
const RESOURCES_PREFIX: &str = "linux.resources.";

/// Fields whose messages only group other fields. Every other message is a value, even if it is
/// empty.
const GROUPING_FIELDS: &[&str] = &[
    "hooks",
    "linux",
    "linux.rdt",
    "linux.resources",
    "linux.resources.cpu",
    "linux.resources.memory",
];

/// Returns the names of all field groups.
pub fn field_groups() -> BTreeSet<&'static str> {
    let groups = fields().map(|row| row.group);
    groups.chain([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT]).collect()
}

/// Returns the row of a field, given by its path in `ContainerAdjustment` or by a path below it.
fn row_of(path: &str) -> Option<FieldRow> {
    fields().find(|row| !row.message.is_empty() && is_below(path, row.message))
}

/// Returns the group of a field, given by its path in `ContainerAdjustment`.
pub(crate) fn group_of(path: &str) -> Option<&'static str> {
    row_of(path).map(|row| row.group)
}

/// Returns the name of a field for messages, given by its path in `ContainerAdjustment`; the path
/// itself if the field is not known.
pub(crate) fn name_of(path: &str) -> &str {
    row_of(path).map_or(path, |row| row.name)
}

/// Returns the other groups that have the effect of a field.
pub(crate) fn groups_of_effect(path: &str) -> impl Iterator<Item = &'static str> {
    SAME_EFFECT.iter().filter(move |(field, _)| is_below(path, field)).map(|(_, group)| *group)
}

/// Returns the pairs of groups of which the first has a field with the effect of the second.
pub(crate) fn groups_with_same_effect() -> impl Iterator<Item = (&'static str, &'static str)> {
    SAME_EFFECT.iter().filter_map(|(field, other)| Some((group_of(field)?, *other)))
}

/// Whether a path is `field` or below it.
fn is_below(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the paths of the fields that an adjustment sets.
pub(crate) fn fields_set(adjustment: &ContainerAdjustment) -> Vec<String> {
    Packed::new(adjustment).set_fields(GROUPING_FIELDS)
}

/// Returns the paths, in `ContainerAdjustment`, of the resources that are set.
pub(crate) fn resources_set(resources: &LinuxResources) -> Vec<String> {
    let groups = GROUPING_FIELDS.iter().filter_map(|path| path.strip_prefix(RESOURCES_PREFIX));
    let mut paths = Packed::new(resources).set_fields(&groups.collect::<Vec<_>>());
    paths.iter_mut().for_each(|path| path.insert_str(0, RESOURCES_PREFIX));
    paths
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nri_api::field_name;
    use nri_api::proto::{ContainerAdjustment, ContainerUpdate, CreateContainerResponse, Field};
    use protobuf::reflect::{
        FieldDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
    };
    use protobuf::{Enum, Message, MessageDyn, MessageFull};

    /// Calls `check` once for each field of the protocol, with its path and an adjustment in which
    /// only this field is set.
    pub(crate) fn each_field(check: &mut dyn FnMut(&str, &ContainerAdjustment)) {
        each_below(&ContainerAdjustment::descriptor(), &mut Vec::new(), check);
    }

    fn each_below(
        message: &MessageDescriptor,
        path: &mut Vec<FieldDescriptor>,
        check: &mut dyn FnMut(&str, &ContainerAdjustment),
    ) {
        for field in message.fields() {
            path.push(field.clone());
            let name = path.iter().map(|f| f.name()).collect::<Vec<_>>().join(".");
            match field.runtime_field_type() {
                RuntimeFieldType::Singular(RuntimeType::Message(inner))
                    if GROUPING_FIELDS.contains(&&*name) =>
                {
                    each_below(&inner, path, check);
                }
                _ => {
                    let mut root = ContainerAdjustment::new();
                    fill(&mut root, path);
                    check(&name, &root);
                }
            }
            path.pop();
        }
    }

    /// Sets the field at the path to a value other than its default.
    fn fill(message: &mut dyn MessageDyn, path: &[FieldDescriptor]) {
        let Some((field, rest)) = path.split_first() else { return };
        if !rest.is_empty() {
            return fill(&mut *field.mut_message(message), rest);
        }
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) => field.set_singular_field(message, value(&kind)),
            RuntimeFieldType::Repeated(kind) => field.mut_repeated(message).push(value(&kind)),
            RuntimeFieldType::Map(key, kind) => {
                field.mut_map(message).insert(value(&key), value(&kind))
            }
        }
    }

    fn value(kind: &RuntimeType) -> ReflectValueBox {
        match kind {
            RuntimeType::Message(kind) => ReflectValueBox::Message(kind.new_instance()),
            RuntimeType::String => ReflectValueBox::String("x".into()),
            RuntimeType::Bool => ReflectValueBox::Bool(true),
            other => panic!("the test sets no field of type {other:?}"),
        }
    }

    fn field_names(message: &MessageDescriptor) -> Vec<String> {
        message.fields().map(|f| f.name().to_owned()).collect()
    }

    #[test]
    fn every_field_of_the_protocol_is_in_one_group_and_every_group_has_a_field() {
        let mut groups = BTreeSet::new();
        let mut count = 0;
        each_field(&mut |path, adjust| {
            count += 1;
            assert_eq!(fields_set(adjust), [path]);
            if path.starts_with(RESOURCES_PREFIX) {
                assert_eq!(resources_set(&adjust.linux.resources), [path]);
            }
            groups.insert(group_of(path).unwrap_or_else(|| panic!("{path} is in no group")));
        });
        // The descriptors of the protocol have more than 40 fields.
        assert!(count > 40, "only {count} fields were checked");
        groups.extend([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT]);
        assert_eq!(groups, field_groups());
    }

    /// Protobuf keeps a value of another type beside the field, as an unknown field.
    #[test]
    fn a_value_of_another_type_hides_no_field() {
        fn add(message: &mut impl Message) {
            let unknown = message.mut_special_fields().mut_unknown_fields();
            (1..50).for_each(|number| unknown.add_varint(number, 1));
        }
        each_field(&mut |path, adjust| {
            let mut adjust = adjust.clone();
            add(&mut adjust);
            adjust.hooks.as_mut().into_iter().for_each(add);
            if let Some(linux) = adjust.linux.as_mut() {
                add(linux);
                linux.rdt.as_mut().into_iter().for_each(add);
                if let Some(resources) = linux.resources.as_mut() {
                    add(resources);
                    resources.cpu.as_mut().into_iter().for_each(add);
                    resources.memory.as_mut().into_iter().for_each(add);
                }
            }
            let sent = adjust.write_to_bytes().unwrap();
            let received = ContainerAdjustment::parse_from_bytes(&sent).unwrap();
            assert!(fields_set(&received).contains(&path.to_owned()), "{path}");
        });
    }

    #[test]
    fn every_field_has_the_name_that_other_messages_use() {
        for (path, name) in [
            ("env", "env"),
            ("CDI_devices", "cdi_devices"),
            ("hooks.poststop", "hooks"),
            ("linux.resources.memory.kernel_tcp", "memory.kernelTCP"),
            ("linux.resources.memory.disable_oom_killer", "memory.disableOOMKiller"),
            ("linux.resources.cpu.cpus", "cpu.cpus"),
            ("linux.resources.hugepage_limits", "hugepageLimits"),
            ("linux.resources.blockio_class", "blockio_class"),
            ("linux.resources.devices", "resources.devices"),
            ("linux.resources.pids", "pids.limit"),
            ("linux.resources.unified", "unified"),
            ("linux.rdt.clos_id", "rdt.closID"),
            ("linux.rdt.remove", "rdt"),
            ("linux.oom_score_adj", "oom_score_adj"),
            ("new_field", "new_field"),
        ] {
            assert_eq!(name_of(path), name);
        }
        let names: Vec<_> = Field::VALUES.iter().map(|field| field_name(*field)).collect();
        each_field(&mut |path, _| {
            let name = name_of(path);
            let known = ["resources.devices", "rdt"].contains(&name) || names.contains(&name);
            assert!(known, "{path}: {name}");
        });
    }

    #[test]
    fn a_group_holds_the_fields_below_its_path_only() {
        assert_eq!(group_of("linux.resources.memory.limit"), Some("resources.memory"));
        assert_eq!(group_of("linux.resources.memory.limitless"), None);
    }

    #[test]
    fn every_field_of_a_reply_and_of_an_update_is_checked() {
        // The fields of an update's resources are those of an adjustment's resources.
        let update = nri_api::proto::LinuxContainerUpdate::descriptor();
        assert_eq!(field_names(&update), ["resources"], "permissions do not cover a new field");
        let update = ContainerUpdate::descriptor();
        let expected = ["container_id", "linux", "ignore_failure"];
        assert_eq!(field_names(&update), expected, "permissions do not cover a new field");
        let reply = CreateContainerResponse::descriptor();
        let expected = ["adjust", "update", "evict"];
        assert_eq!(field_names(&reply), expected, "permissions do not cover a new field");
    }
}

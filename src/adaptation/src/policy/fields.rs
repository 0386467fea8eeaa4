//! Table of the groups of protocol fields that permissions are given by, and the groups that a
//! reply touches.
//!
//! Which fields a reply sets is read from the protocol's descriptors, so that a field that is
//! missing in this table is refused to restricted plugins instead of being let through.

use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};
use std::collections::BTreeSet;

/// Group of updates of containers other than the one that an event is about.
pub(crate) const UPDATE: &str = "update";
/// Group of evictions.
pub(crate) const EVICT: &str = "evict";
/// Group of annotations that runtimes act on; needed in addition to `annotations`.
pub(crate) const RUNTIME_ANNOTATIONS: &str = "runtime_annotations";
/// Group that stands for all `resources.*` groups.
pub(crate) const RESOURCES: &str = "resources";

/// Fields of `ContainerAdjustment`, each with all fields below it, and their groups.
const FIELDS: &[(&str, &str)] = &[
    ("annotations", "annotations"),
    ("mounts", "mounts"),
    ("env", "env"),
    ("hooks", "hooks"),
    ("rlimits", "rlimits"),
    ("CDI_devices", "cdi_devices"),
    ("args", "args"),
    ("linux.devices", "devices"),
    ("linux.resources.memory", "resources.memory"),
    ("linux.resources.cpu", "resources.cpu"),
    ("linux.resources.hugepage_limits", "resources.hugepages"),
    ("linux.resources.blockio_class", "resources.blockio_class"),
    ("linux.resources.rdt_class", "resources.rdt_class"),
    ("linux.resources.unified", "resources.unified"),
    ("linux.resources.devices", "resources.devices"),
    ("linux.resources.pids", "resources.pids"),
    ("linux.cgroups_path", "cgroups_path"),
    ("linux.oom_score_adj", "oom_score_adj"),
    ("linux.io_priority", "io_priority"),
    ("linux.seccomp_policy", "seccomp"),
    ("linux.namespaces", "namespaces"),
    ("linux.sysctl", "sysctl"),
    ("linux.net_devices", "net_devices"),
    ("linux.scheduler", "scheduler"),
    ("linux.rdt", "rdt"),
    ("linux.memory_policy", "memory_policy"),
];

/// Messages that only group other fields. Every other message is a value, even if it is empty.
const CONTAINERS_OF_FIELDS: &[&str] =
    &["Hooks", "LinuxContainerAdjustment", "LinuxResources", "LinuxMemory", "LinuxCPU", "LinuxRdt"];

/// Names of all groups of fields that permissions are given by.
pub fn field_groups() -> BTreeSet<&'static str> {
    FIELDS
        .iter()
        .map(|(_, group)| *group)
        .chain([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT])
        .collect()
}

/// Returns the group of a field, given by its path in `ContainerAdjustment`.
pub(crate) fn group_of(path: &str) -> Option<&'static str> {
    let is_below = |field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    FIELDS.iter().find(|(field, _)| is_below(field)).map(|(_, group)| *group)
}

/// Returns the paths of the fields that are set in a message, each with `prefix` before it.
pub(crate) fn fields_set(message: &dyn MessageDyn, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for field in message.descriptor_dyn().fields() {
        let path = format!("{prefix}{}", field.name());
        let is_set = match field.get_reflect(message) {
            ReflectFieldRef::Repeated(list) => !list.is_empty(),
            ReflectFieldRef::Map(map) => !map.is_empty(),
            ReflectFieldRef::Optional(_) => field.has_field(message),
        };
        if !is_set {
            continue;
        }
        match field.is_singular().then(|| field.get_singular(message)).flatten() {
            Some(ReflectValueRef::Message(inner))
                if CONTAINERS_OF_FIELDS.contains(&inner.descriptor_dyn().name()) =>
            {
                found.extend(fields_set(&*inner, &format!("{path}.")));
            }
            _ => found.push(path),
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nri_api::proto::{ContainerAdjustment, ContainerUpdate, CreateContainerResponse};
    use protobuf::MessageFull;
    use protobuf::reflect::{
        FieldDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
    };

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
            match grouping_message(&field) {
                Some(inner) => each_below(&inner, path, check),
                None => {
                    let mut root = ContainerAdjustment::new();
                    fill(&mut root, path);
                    let name = path.iter().map(|f| f.name()).collect::<Vec<_>>().join(".");
                    check(&name, &root);
                }
            }
            path.pop();
        }
    }

    fn grouping_message(field: &FieldDescriptor) -> Option<MessageDescriptor> {
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(RuntimeType::Message(inner)) => {
                CONTAINERS_OF_FIELDS.contains(&inner.name()).then_some(inner)
            }
            _ => None,
        }
    }

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
            assert_eq!(fields_set(adjust, ""), [path]);
            groups.insert(group_of(path).unwrap_or_else(|| panic!("{path} is in no group")));
        });
        assert!(count > 40, "{count}");
        groups.extend([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT]);
        assert_eq!(groups, field_groups());
    }

    #[test]
    fn a_group_holds_the_fields_below_its_path_only() {
        assert_eq!(group_of("linux.resources.memory.limit"), Some("resources.memory"));
        assert_eq!(group_of("linux.resources.memoryless"), None);
    }

    #[test]
    fn every_field_of_a_reply_and_of_an_update_is_checked() {
        // The fields of an update's resources are those of an adjustment's resources.
        let update = nri_api::proto::LinuxContainerUpdate::descriptor();
        assert_eq!(field_names(&update), ["resources"], "other fields are not checked");
        let update = ContainerUpdate::descriptor();
        let expected = ["container_id", "linux", "ignore_failure"];
        assert_eq!(field_names(&update), expected, "other fields are not checked");
        let reply = CreateContainerResponse::descriptor();
        let expected = ["adjust", "update", "evict"];
        assert_eq!(field_names(&reply), expected, "other fields are not checked");
    }
}

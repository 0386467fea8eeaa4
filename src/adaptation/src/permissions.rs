//! What a plugin may change, by groups of the protocol's fields, and whether a reply keeps to it.
//!
//! A reply is judged before it is merged, and as a whole: what a plugin may not ask for must not
//! depend on what others ask for. Which fields a reply sets is read off the protocol's own
//! description, so that a field which this table does not know is refused to plugins that are
//! restricted, and not let through.

use crate::obeyed::{group_of_unified, is_obeyed};
use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, CreateContainerResponse, LinuxResources};
use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};
use std::collections::BTreeSet;

/// Updates of containers other than the one that an event is about.
const UPDATE: &str = "update";
/// Evictions.
const EVICT: &str = "evict";
/// Annotations that runtimes obey, beside `annotations`.
const RUNTIME_ANNOTATIONS: &str = "runtime_annotations";
/// Stands for all `resources.…`.
const RESOURCES: &str = "resources";

/// Fields of `ContainerAdjustment`, with all that is in them, and the groups that they are in.
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

/// Messages that only hold others together; all others are values, even when they are empty.
const HOLDERS: &[&str] =
    &["Hooks", "LinuxContainerAdjustment", "LinuxResources", "LinuxMemory", "LinuxCPU", "LinuxRdt"];

/// The groups of fields that permissions are given by.
pub fn field_groups() -> BTreeSet<&'static str> {
    FIELDS
        .iter()
        .map(|(_, group)| *group)
        .chain([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT])
        .collect()
}

/// What a plugin may change; all, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    allow: Option<BTreeSet<&'static str>>,
    deny: BTreeSet<&'static str>,
}

/// A group of fields that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no field group {0:?}")]
pub struct UnknownGroup(pub String);

/// Something that a plugin may not ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin} may not {what}: {why}")]
pub struct PermissionDenied {
    /// Who asked.
    pub plugin: PluginId,
    /// What for, as in "adjust hooks of c".
    pub what: String,
    /// The container that it is about.
    pub container: String,
    /// The rule.
    pub why: DenialReason,
}

/// Why something is not permitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DenialReason {
    /// It was denied.
    #[error("the policy {policy:?} denies {group}")]
    Denied {
        /// As it names plugins.
        policy: String,
        /// As the policy names it.
        group: &'static str,
    },
    /// Something else was allowed.
    #[error("the policy {policy:?} does not allow {group}")]
    NotAllowed {
        /// As it names plugins.
        policy: String,
        /// What would have to be allowed.
        group: &'static str,
    },
    /// This program does not know what the field is.
    #[error("the policy {policy:?} restricts the plugin, and the field is in no group")]
    Unknown {
        /// As it names plugins.
        policy: String,
    },
}

impl Permissions {
    /// Only these groups, or without them all, and in any case not those.
    ///
    /// # Errors
    /// A name that is none of [`field_groups`].
    pub fn new<'a>(
        allow: Option<impl IntoIterator<Item = &'a str>>,
        deny: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownGroup> {
        let all = field_groups();
        let known =
            |name: &str| all.get(name).copied().ok_or_else(|| UnknownGroup(name.to_owned()));
        let allow = allow.map(|names| names.into_iter().map(known).collect()).transpose()?;
        Ok(Self { allow, deny: deny.into_iter().map(known).collect::<Result<_, _>>()? })
    }

    /// Nothing.
    pub fn none() -> Self {
        Self { allow: Some(BTreeSet::new()), deny: BTreeSet::new() }
    }

    fn is_everything(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Whether a group may be touched.
    fn judge(&self, policy: &str, group: Option<&'static str>) -> Result<(), DenialReason> {
        let policy = policy.to_owned();
        let Some(group) = group else { return Err(DenialReason::Unknown { policy }) };
        let names = || {
            [Some(group), group.starts_with("resources.").then_some(RESOURCES)]
                .into_iter()
                .flatten()
        };
        if let Some(group) = names().find(|name| self.deny.contains(name)) {
            return Err(DenialReason::Denied { policy, group });
        }
        match &self.allow {
            Some(allow) if !names().any(|name| allow.contains(name)) => {
                Err(DenialReason::NotAllowed { policy, group })
            }
            _ => Ok(()),
        }
    }
}

/// The permissions of one plugin.
#[derive(Debug, Clone)]
pub(crate) struct Permit<'a> {
    pub(crate) plugin: &'a PluginId,
    pub(crate) policy: std::sync::Arc<crate::PluginPolicy>,
}

impl Permit<'_> {
    /// Judges a reply to `CreateContainer`.
    pub(crate) fn creation(
        &self,
        container: &str,
        reply: &CreateContainerResponse,
    ) -> Result<(), PermissionDenied> {
        if self.policy.permissions.is_everything() {
            return Ok(());
        }
        if let Some(adjust) = reply.adjust.as_ref() {
            self.fields("adjust", container, &touched(adjust, ""))?;
            for key in adjust.annotations.keys().filter(|key| is_obeyed(key)) {
                self.group(RUNTIME_ANNOTATIONS, container, || {
                    format!("adjust annotation {key:?} of {container}")
                })?;
            }
            self.unified("adjust", container, &adjust.linux.resources)?;
        }
        self.updates(None, &reply.update, &reply.evict)
    }

    /// Judges updates and evictions: `own` is the container that the event is about, if its update
    /// is asked for.
    pub(crate) fn updates(
        &self,
        own: Option<&str>,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) -> Result<(), PermissionDenied> {
        if self.policy.permissions.is_everything() {
            return Ok(());
        }
        for update in updates {
            let id = &*update.container_id;
            if own != Some(id) {
                self.group(UPDATE, id, || format!("update other containers ({id})"))?;
            }
            if let Some(resources) = update.linux.resources.as_ref() {
                self.fields("update", id, &resources_touched(resources))?;
                self.unified("update", id, resources)?;
            }
        }
        for eviction in evictions {
            let id = &*eviction.container_id;
            self.group(EVICT, id, || format!("evict containers ({id})"))?;
        }
        Ok(())
    }

    fn fields(
        &self,
        verb: &str,
        container: &str,
        paths: &[String],
    ) -> Result<(), PermissionDenied> {
        for path in paths {
            let group = group_of(path);
            let name = group.unwrap_or(path);
            self.judge(group, container, || format!("{verb} {name} of {container}"))?;
        }
        Ok(())
    }

    /// What is denied by its own field is denied by the file of the control group, too. Who is
    /// allowed `resources.unified` by name is allowed its files.
    fn unified(
        &self,
        verb: &str,
        container: &str,
        resources: &LinuxResources,
    ) -> Result<(), PermissionDenied> {
        for key in resources.unified.keys() {
            let group =
                group_of_unified(key).filter(|group| self.policy.permissions.deny.contains(group));
            if let Some(group) = group {
                self.group(group, container, || format!("{verb} unified {key:?} of {container}"))?;
            }
        }
        Ok(())
    }

    fn group(
        &self,
        group: &'static str,
        container: &str,
        what: impl Fn() -> String,
    ) -> Result<(), PermissionDenied> {
        self.judge(Some(group), container, what)
    }

    fn judge(
        &self,
        group: Option<&'static str>,
        container: &str,
        what: impl Fn() -> String,
    ) -> Result<(), PermissionDenied> {
        self.policy.permissions.judge(&self.policy.plugin, group).map_err(|why| PermissionDenied {
            plugin: self.plugin.clone(),
            what: what(),
            container: container.to_owned(),
            why,
        })
    }
}

fn resources_touched(resources: &LinuxResources) -> Vec<String> {
    touched(resources, "linux.resources.")
}

/// The group of a field, by its path in `ContainerAdjustment`.
fn group_of(path: &str) -> Option<&'static str> {
    let within = |field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    FIELDS.iter().find(|(field, _)| within(field)).map(|(_, group)| *group)
}

/// Paths of the fields that are set.
fn touched(message: &dyn MessageDyn, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for field in message.descriptor_dyn().fields() {
        let path = format!("{prefix}{}", field.name());
        let set = match field.get_reflect(message) {
            ReflectFieldRef::Repeated(list) => !list.is_empty(),
            ReflectFieldRef::Map(map) => !map.is_empty(),
            ReflectFieldRef::Optional(_) => field.has_field(message),
        };
        if !set {
            continue;
        }
        match field.is_singular().then(|| field.get_singular(message)).flatten() {
            Some(ReflectValueRef::Message(inner))
                if HOLDERS.contains(&inner.descriptor_dyn().name()) =>
            {
                found.extend(touched(&*inner, &format!("{path}.")));
            }
            _ => found.push(path),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginPolicy;
    use nri_api::proto::ContainerAdjustment;
    use protobuf::reflect::{
        FieldDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
    };
    use protobuf::{MessageField, MessageFull};

    fn value(kind: &RuntimeType) -> ReflectValueBox {
        match kind {
            RuntimeType::Message(kind) => ReflectValueBox::Message(kind.new_instance()),
            RuntimeType::String => ReflectValueBox::String("x".into()),
            RuntimeType::Bool => ReflectValueBox::Bool(true),
            other => panic!("no field of an adjustment is a bare {other:?} so far"),
        }
    }

    fn holder(field: &FieldDescriptor) -> Option<MessageDescriptor> {
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(RuntimeType::Message(inner)) => {
                HOLDERS.contains(&inner.name()).then_some(inner)
            }
            _ => None,
        }
    }

    /// Sets each field of the protocol on its own, in a message below `root`, and gives its path to
    /// `check`.
    fn each(
        message: &MessageDescriptor,
        path: &mut Vec<FieldDescriptor>,
        check: &mut dyn FnMut(&str, &ContainerAdjustment),
    ) {
        for field in message.fields() {
            path.push(field.clone());
            match holder(&field) {
                Some(inner) => each(&inner, path, check),
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

    #[test]
    fn every_field_of_the_protocol_is_in_one_group_and_every_group_has_a_field() {
        let mut used = BTreeSet::new();
        let mut count = 0;
        each(&ContainerAdjustment::descriptor(), &mut Vec::new(), &mut |path, adjust| {
            count += 1;
            assert_eq!(touched(adjust, ""), [path]);
            used.insert(group_of(path).unwrap_or_else(|| panic!("{path} is in no group")));
        });
        assert!(count > 40, "{count}");
        let mut all = used;
        all.extend([RESOURCES, RUNTIME_ANNOTATIONS, UPDATE, EVICT]);
        assert_eq!(all, field_groups());
        assert_eq!(group_of("linux.resources.memory.limit"), Some("resources.memory"));
        assert_eq!(group_of("linux.resources.memoryless"), None);
        // What an update can hold is what an adjustment's resources can.
        let update = nri_api::proto::LinuxContainerUpdate::descriptor();
        let names: Vec<_> = update.fields().map(|f| f.name().to_owned()).collect();
        assert_eq!(names, ["resources"], "what is beside it is not judged");
        let update = ContainerUpdate::descriptor();
        let names: Vec<_> = update.fields().map(|f| f.name().to_owned()).collect();
        assert_eq!(
            names,
            ["container_id", "linux", "ignore_failure"],
            "what is beside it is not judged"
        );
        let reply = CreateContainerResponse::descriptor();
        let names: Vec<_> = reply.fields().map(|f| f.name().to_owned()).collect();
        assert_eq!(names, ["adjust", "update", "evict"], "what is beside it is not judged");
    }

    fn check(
        allow: Option<&[&str]>,
        deny: &[&str],
        reply: &CreateContainerResponse,
        expected: Result<(), &str>,
    ) {
        let permissions =
            Permissions::new(allow.map(|a| a.iter().copied()), deny.iter().copied()).unwrap();
        let policy = PluginPolicy { plugin: "a".into(), permissions, ..PluginPolicy::default() };
        let plugin = PluginId::new("10", "a").unwrap();
        let result = Permit { plugin: &plugin, policy: policy.into() }.creation("c", reply);
        assert_eq!(
            result.map_err(|e| e.to_string()),
            expected.map_err(str::to_owned),
            "{allow:?} {deny:?}"
        );
    }

    fn reply_with(adjust: impl FnOnce(&mut ContainerAdjustment)) -> CreateContainerResponse {
        let mut reply = CreateContainerResponse::new();
        adjust(reply.adjust.mut_or_insert_default());
        reply
    }

    #[test]
    fn each_group_alone_is_refused_when_denied_and_let_through_when_allowed() {
        each(&ContainerAdjustment::descriptor(), &mut Vec::new(), &mut |path, adjust| {
            let group = group_of(path).unwrap();
            let reply = CreateContainerResponse {
                adjust: MessageField::some(adjust.clone()),
                ..Default::default()
            };
            let text = |why: &str| {
                format!("plugin 10-a may not adjust {group} of c: the policy \"a\" {why}")
            };
            check(None, &[], &reply, Ok(()));
            check(None, &[group], &reply, Err(&text(&format!("denies {group}"))));
            check(Some(&[group]), &[], &reply, Ok(()));
            check(Some(&[group]), &[group], &reply, Err(&text(&format!("denies {group}"))));
            check(Some(&[]), &[], &reply, Err(&text(&format!("does not allow {group}"))));
            let others: Vec<_> =
                field_groups().into_iter().filter(|g| *g != group && *g != RESOURCES).collect();
            check(None, &others, &reply, Ok(()));
            check(Some(&others), &[], &reply, Err(&text(&format!("does not allow {group}"))));
            if group.starts_with("resources.") {
                check(None, &[RESOURCES], &reply, Err(&text("denies resources")));
                check(Some(&[RESOURCES]), &[], &reply, Ok(()));
            }
        });
    }

    #[test]
    fn annotations_that_runtimes_obey_are_a_group_of_their_own() {
        let with = |key: &str| reply_with(|a| drop(a.annotations.insert(key.into(), "x".into())));
        check(Some(&["annotations"]), &[], &with("example.org/x"), Ok(()));
        for key in [
            "org.systemd.property.MemoryMax",
            "run.oci.hooks.stdout",
            "org.criu.config",
            "-org.criu.config",
        ] {
            let text = |why: &str| {
                format!(
                    "plugin 10-a may not adjust annotation {key:?} of c: the policy \"a\" {why}"
                )
            };
            let reply = with(key);
            check(None, &[], &reply, Ok(()));
            check(None, &["hooks"], &reply, Ok(()));
            check(
                Some(&["annotations"]),
                &[],
                &reply,
                Err(&text("does not allow runtime_annotations")),
            );
            check(None, &["runtime_annotations"], &reply, Err(&text("denies runtime_annotations")));
            check(Some(&["annotations", "runtime_annotations"]), &[], &reply, Ok(()));
            let text = "plugin 10-a may not adjust annotations of c: the policy \"a\" does not allow annotations";
            check(Some(&["runtime_annotations"]), &[], &reply, Err(text));
        }
    }

    #[test]
    fn what_is_denied_cannot_be_had_through_unified() {
        let unified = |resources: &mut LinuxResources| {
            drop(resources.unified.insert("memory.max".into(), "1".into()))
        };
        let reply = reply_with(|a| {
            unified(a.linux.mut_or_insert_default().resources.mut_or_insert_default())
        });
        let text = |what: &str| {
            format!("plugin 10-a may not {what}: the policy \"a\" denies resources.memory")
        };
        check(
            None,
            &["resources.memory"],
            &reply,
            Err(&text("adjust unified \"memory.max\" of c")),
        );
        check(None, &["resources.cpu"], &reply, Ok(()));
        check(Some(&["resources.unified"]), &[], &reply, Ok(()));
        check(
            Some(&["resources"]),
            &["resources.memory"],
            &reply,
            Err(&text("adjust unified \"memory.max\" of c")),
        );
        let mut update = ContainerUpdate { container_id: "x".into(), ..Default::default() };
        unified(update.linux.mut_or_insert_default().resources.mut_or_insert_default());
        let reply = CreateContainerResponse { update: vec![update], ..Default::default() };
        check(
            None,
            &["resources.memory"],
            &reply,
            Err(&text("update unified \"memory.max\" of x")),
        );
    }

    #[test]
    fn updates_of_others_and_evictions() {
        let mut reply = CreateContainerResponse::new();
        let mut update = ContainerUpdate { container_id: "x".into(), ..Default::default() };
        update.linux.mut_or_insert_default().resources.mut_or_insert_default().pids =
            Some(Default::default()).into();
        reply.update.push(update);
        check(Some(&["update", "resources.pids"]), &[], &reply, Ok(()));
        check(
            Some(&["resources.pids"]),
            &[],
            &reply,
            Err(
                "plugin 10-a may not update other containers (x): the policy \"a\" does not allow update",
            ),
        );
        check(
            None,
            &["resources.pids"],
            &reply,
            Err(
                "plugin 10-a may not update resources.pids of x: the policy \"a\" denies resources.pids",
            ),
        );
        let evict = ContainerEviction { container_id: "y".into(), ..Default::default() };
        let reply = CreateContainerResponse { evict: vec![evict], ..Default::default() };
        check(
            Some(&["update"]),
            &["hooks"],
            &reply,
            Err("plugin 10-a may not evict containers (y): the policy \"a\" does not allow evict"),
        );
        check(None, &["update"], &reply, Ok(()));
    }

    #[test]
    fn holders_that_hold_nothing_change_nothing() {
        let reply = reply_with(|adjust| {
            adjust.hooks = Some(Default::default()).into();
            let resources = adjust.linux.mut_or_insert_default().resources.mut_or_insert_default();
            resources.memory = Some(Default::default()).into();
        });
        check(Some(&[]), &[], &reply, Ok(()));
        assert_eq!(Permissions::new(Some(["mount"]), []), Err(UnknownGroup("mount".into())));
    }
}

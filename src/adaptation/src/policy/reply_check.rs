//! Check of a plugin's reply against the permissions of its policy.
//!
//! A reply is checked as a whole and before it is merged: whether a plugin may request a change
//! must not depend on the requests of other plugins.

use crate::policy::fields::{
    EVICT, RUNTIME_ANNOTATIONS, UPDATE, fields_set, group_of, groups_of_effect, name_of,
    resources_set,
};
use crate::policy::permissions::{DenialReason, PermissionDenied};
use crate::policy::plugin_policy::PluginPolicy;
use crate::policy::runtime_keys::{group_of_unified, is_runtime_annotation};
use nri_api::proto::{ContainerEviction, ContainerUpdate, CreateContainerResponse, LinuxResources};
use nri_api::{PluginId, entry_name};
use std::sync::Arc;

/// The permissions of one plugin, applied to its replies.
#[derive(Debug, Clone)]
pub(crate) struct ReplyCheck<'a> {
    pub(crate) plugin: &'a PluginId,
    pub(crate) policy: Arc<PluginPolicy>,
}

impl ReplyCheck<'_> {
    /// Checks a reply to `CreateContainer`.
    pub(crate) fn check_creation(
        &self,
        container: &str,
        reply: &CreateContainerResponse,
    ) -> Result<(), PermissionDenied> {
        if self.policy.permissions.allows_everything() {
            return Ok(());
        }
        if let Some(adjust) = reply.adjust.as_ref() {
            self.check_fields("adjust", container, &fields_set(adjust))?;
            for key in adjust.annotations.keys().filter(|key| is_runtime_annotation(key)) {
                self.check_group(RUNTIME_ANNOTATIONS, container, || {
                    format!("adjust {} of {container}", entry_name("annotations", key))
                })?;
            }
            self.check_unified("adjust", container, &adjust.linux.resources)?;
        }
        self.check_updates(None, &reply.update, &reply.evict)
    }

    /// Checks updates and evictions. `own` is the container of an `UpdateContainer` event, which
    /// its plugins may update without the group `update`; `None` for other events.
    pub(crate) fn check_updates(
        &self,
        own: Option<&str>,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) -> Result<(), PermissionDenied> {
        if self.policy.permissions.allows_everything() {
            return Ok(());
        }
        for update in updates {
            let id = &*update.container_id;
            if own != Some(id) {
                self.check_group(UPDATE, id, || format!("update other containers ({id})"))?;
            }
            if let Some(resources) = update.linux.resources.as_ref() {
                self.check_fields("update", id, &resources_set(resources))?;
                self.check_unified("update", id, resources)?;
            }
        }
        for eviction in evictions {
            let id = &*eviction.container_id;
            self.check_group(EVICT, id, || format!("evict containers ({id})"))?;
        }
        Ok(())
    }

    fn check_fields(
        &self,
        verb: &str,
        container: &str,
        paths: &[String],
    ) -> Result<(), PermissionDenied> {
        for path in paths {
            let group = group_of(path);
            let name = name_of(path);
            let what = || format!("{verb} {name} of {container}");
            self.check_optional_group(group, container, what)?;
            for other in groups_of_effect(path) {
                let checked = self.policy.permissions.check_denied(&self.policy.plugin, other);
                checked.map_err(|why| self.denied(container, what(), why))?;
            }
        }
        Ok(())
    }

    /// Denies keys of `unified` that set a field of a denied group. A policy that allows
    /// `resources.unified` by name allows all other keys.
    fn check_unified(
        &self,
        verb: &str,
        container: &str,
        resources: &LinuxResources,
    ) -> Result<(), PermissionDenied> {
        for key in resources.unified.keys() {
            let group = group_of_unified(key);
            if let Some(group) = group.filter(|group| self.policy.permissions.denies(group)) {
                self.check_group(group, container, || {
                    format!("{verb} {} of {container}", entry_name("unified", key))
                })?;
            }
        }
        Ok(())
    }

    fn check_group(
        &self,
        group: &'static str,
        container: &str,
        what: impl Fn() -> String,
    ) -> Result<(), PermissionDenied> {
        self.check_optional_group(Some(group), container, what)
    }

    fn check_optional_group(
        &self,
        group: Option<&'static str>,
        container: &str,
        what: impl Fn() -> String,
    ) -> Result<(), PermissionDenied> {
        let checked = self.policy.permissions.check(&self.policy.plugin, group);
        checked.map_err(|why| self.denied(container, what(), why))
    }

    fn denied(&self, container: &str, what: String, why: DenialReason) -> PermissionDenied {
        let (plugin, container) = (self.plugin.clone(), container.to_owned());
        PermissionDenied { plugin, what, container, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fields::tests::each_field;
    use crate::policy::fields::{RESOURCES, RESOURCES_DEVICES, field_groups};
    use crate::policy::permissions::Permissions;
    use nri_api::proto::ContainerAdjustment;
    use protobuf::MessageField;

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
        let result =
            ReplyCheck { plugin: &plugin, policy: policy.into() }.check_creation("c", reply);
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
    fn each_group_is_refused_when_denied_and_accepted_when_allowed() {
        each_field(&mut |path, adjust| {
            let group = group_of(path).unwrap();
            let reply = CreateContainerResponse {
                adjust: MessageField::some(adjust.clone()),
                ..Default::default()
            };
            let hint = match group {
                RESOURCES_DEVICES => ", which is not part of resources",
                _ => "",
            };
            let text = |why: &str| {
                let hint = if why.starts_with("does not") { hint } else { "" };
                let name = name_of(path);
                format!("plugin 10-a may not adjust {name} of c: the policy \"a\" {why}{hint}")
            };
            check(None, &[], &reply, Ok(()));
            check(None, &[group], &reply, Err(&text(&format!("denies {group}"))));
            check(Some(&[group]), &[], &reply, Ok(()));
            check(Some(&[group]), &[group], &reply, Err(&text(&format!("denies {group}"))));
            check(Some(&[]), &[], &reply, Err(&text(&format!("does not allow {group}"))));
            let mut others: Vec<_> =
                field_groups().into_iter().filter(|g| *g != group && *g != RESOURCES).collect();
            check(Some(&others), &[], &reply, Err(&text(&format!("does not allow {group}"))));
            let same: Vec<_> = groups_of_effect(path).collect();
            others.retain(|other| !same.contains(other));
            check(None, &others, &reply, Ok(()));
            if group == RESOURCES_DEVICES {
                check(
                    Some(&[RESOURCES]),
                    &[],
                    &reply,
                    Err(&text("does not allow resources.devices")),
                );
            } else if group.starts_with("resources.") {
                check(Some(&[RESOURCES]), &[], &reply, Ok(()));
            }
            if group.starts_with("resources.") {
                check(None, &[RESOURCES], &reply, Err(&text("denies resources")));
            }
        });
    }

    #[test]
    fn annotations_that_runtimes_act_on_need_a_group_of_their_own() {
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
                    "plugin 10-a may not adjust annotations[{key}] of c: the policy \"a\" {why}"
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
            let text = "plugin 10-a may not adjust annotations of c: \
                        the policy \"a\" does not allow annotations";
            check(Some(&["runtime_annotations"]), &[], &reply, Err(text));
        }
    }

    #[test]
    fn a_denied_field_cannot_be_set_through_unified() {
        let unified = |resources: &mut LinuxResources| {
            drop(resources.unified.insert("memory.max".into(), "1".into()))
        };
        let reply = reply_with(|a| {
            unified(a.linux.mut_or_insert_default().resources.mut_or_insert_default())
        });
        let text = |what: &str| {
            format!("plugin 10-a may not {what}: the policy \"a\" denies resources.memory")
        };
        check(None, &["resources.memory"], &reply, Err(&text("adjust unified[memory.max] of c")));
        check(None, &["resources.cpu"], &reply, Ok(()));
        check(Some(&["resources.unified"]), &[], &reply, Ok(()));
        check(
            Some(&["resources"]),
            &["resources.memory"],
            &reply,
            Err(&text("adjust unified[memory.max] of c")),
        );
        let mut update = ContainerUpdate { container_id: "x".into(), ..Default::default() };
        unified(update.linux.mut_or_insert_default().resources.mut_or_insert_default());
        let reply = CreateContainerResponse { update: vec![update], ..Default::default() };
        check(None, &["resources.memory"], &reply, Err(&text("update unified[memory.max] of x")));
    }

    #[test]
    fn updates_of_other_containers_and_evictions_need_their_groups() {
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
            Err("plugin 10-a may not update other containers (x): \
                 the policy \"a\" does not allow update"),
        );
        check(
            None,
            &["resources.pids"],
            &reply,
            Err("plugin 10-a may not update pids.limit of x: \
                 the policy \"a\" denies resources.pids"),
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
    fn empty_grouping_messages_change_nothing() {
        let reply = reply_with(|adjust| {
            adjust.hooks = Some(Default::default()).into();
            let resources = adjust.linux.mut_or_insert_default().resources.mut_or_insert_default();
            resources.memory = Some(Default::default()).into();
        });
        check(Some(&[]), &[], &reply, Ok(()));
    }
}

//! Permissions of a plugin: the field groups that it may change, and the error for other changes.
//!
//! [`crate::policy::fields`] has the table of groups; [`crate::policy::reply_check`] applies the
//! permissions to a reply.

use crate::policy::fields::{RESOURCES, RESOURCES_DEVICES, field_groups, groups_with_same_effect};
use nri_api::PluginId;
use std::collections::BTreeSet;

/// Groups of fields that a plugin may change; all of them by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    allow: Option<BTreeSet<&'static str>>,
    deny: BTreeSet<&'static str>,
}

/// Error for a name that is not a field group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown field group {0:?}")]
pub struct UnknownGroup(pub String);

/// Error for a change that a plugin requested without permission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin} may not {what}: {why}")]
pub struct PermissionDenied {
    /// Plugin that requested the change.
    pub plugin: PluginId,
    /// The change, such as "adjust hooks of c".
    pub what: String,
    /// Id of the container that would have changed.
    pub container: String,
    /// Rule of the policy that denies the change.
    pub why: DenialReason,
}

/// Reason why a policy denies a change. `policy` is the policy's `match`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DenialReason {
    /// The group is in `deny`.
    #[error("the policy {policy:?} denies {group}")]
    Denied {
        /// `match` of the policy.
        policy: String,
        /// Group as the policy names it.
        group: &'static str,
    },
    /// The group is not in `allow`.
    #[error("the policy {policy:?} does not allow {group}{hint}", hint = hint(group))]
    NotAllowed {
        /// `match` of the policy.
        policy: String,
        /// Group that would have to be allowed.
        group: &'static str,
    },
    /// The container is not in the scope of the policy.
    #[error("it is outside the scope of the policy {policy:?}")]
    OutsideScope {
        /// `match` of the policy.
        policy: String,
    },
    /// The field is in no group that this program knows.
    #[error("the policy {policy:?} permits only known field groups, and the field is in none")]
    Unknown {
        /// `match` of the policy.
        policy: String,
    },
}

fn hint(group: &str) -> &'static str {
    if group == RESOURCES_DEVICES { ", which is not part of resources" } else { "" }
}

/// Lists of a policy that can be read in two ways. `policy` is its `match`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousPermissions {
    /// `allow` has `resources`, which a reader may take to include `resources.devices`.
    #[error(
        "the policy {policy:?} allows resources, which does not include resources.devices: name \
         resources.devices in allow or in deny"
    )]
    Devices {
        /// `match` of the policy.
        policy: String,
    },
    /// One group is allowed, and another one with the same effect is denied.
    #[error(
        "the policy {policy:?} allows {allowed} and denies {denied}, which have the same effect: \
         allow or deny both"
    )]
    SameEffect {
        /// `match` of the policy.
        policy: String,
        /// Group in `allow`.
        allowed: &'static str,
        /// Group in `deny`.
        denied: &'static str,
    },
}

impl Permissions {
    /// Allows the groups in `allow` (`None` allows all groups) except those in `deny`.
    ///
    /// # Errors
    /// If a name is not one of [`field_groups`].
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

    /// Allows nothing.
    pub fn none() -> Self {
        Self { allow: Some(BTreeSet::new()), deny: BTreeSet::new() }
    }

    /// Checks that the lists can be read in one way only. If the lists are read more strictly than
    /// their author expects, containers are refused; if less strictly, the plugin gets too many
    /// permissions.
    ///
    /// # Errors
    /// The first ambiguity.
    pub fn unambiguous(&self, policy: &str) -> Result<(), AmbiguousPermissions> {
        let Some(allow) = &self.allow else { return Ok(()) };
        let policy = || policy.to_owned();
        let denied = |group: &str| self.deny.contains(group);
        let pair = groups_with_same_effect().find(|(a, b)| allow.contains(a) && denied(b));
        if let Some((allowed, denied)) = pair {
            return Err(AmbiguousPermissions::SameEffect { policy: policy(), allowed, denied });
        }
        let names_devices = allow.contains(RESOURCES_DEVICES)
            || [RESOURCES_DEVICES, RESOURCES, "devices"].into_iter().any(denied);
        if allow.contains(RESOURCES) && !names_devices {
            return Err(AmbiguousPermissions::Devices { policy: policy() });
        }
        Ok(())
    }

    pub(crate) fn allows_everything(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Whether `deny` contains the group by its own name, not only `resources`.
    pub(crate) fn denies(&self, group: &str) -> bool {
        self.deny.contains(group)
    }

    /// Checks that a group is not in `deny`, by its own name or as a part of `resources`.
    pub(crate) fn check_denied(
        &self,
        policy: &str,
        group: &'static str,
    ) -> Result<(), DenialReason> {
        match with_resources(group).find(|name| self.deny.contains(name)) {
            Some(group) => Err(DenialReason::Denied { policy: policy.to_owned(), group }),
            None => Ok(()),
        }
    }

    /// Checks whether a group may be changed. `group` is `None` for a field that is in no group.
    pub(crate) fn check(
        &self,
        policy: &str,
        group: Option<&'static str>,
    ) -> Result<(), DenialReason> {
        let Some(group) = group else {
            return Err(DenialReason::Unknown { policy: policy.to_owned() });
        };
        self.check_denied(policy, group)?;
        let mut names =
            with_resources(group).filter(|name| *name != RESOURCES || group != RESOURCES_DEVICES);
        match &self.allow {
            Some(allow) if !names.any(|name| allow.contains(name)) => {
                Err(DenialReason::NotAllowed { policy: policy.to_owned(), group })
            }
            _ => Ok(()),
        }
    }
}

/// Returns a group, and `resources` if that is its first part.
fn with_resources(group: &'static str) -> impl Iterator<Item = &'static str> {
    [Some(group), group.starts_with("resources.").then_some(RESOURCES)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_group_is_an_error() {
        assert_eq!(Permissions::new(Some(["mount"]), []), Err(UnknownGroup("mount".into())));
    }

    #[test]
    fn lists_that_can_be_read_in_two_ways_are_refused() {
        type Groups<'a> = &'a [&'a str];
        let cases: [(Option<Groups<'_>>, Groups<'_>, &str); 11] = [
            (None, &["devices"], ""),
            (Some(&[]), &[], ""),
            (Some(&["resources.cpu"]), &[], ""),
            (Some(&["resources"]), &[], "name resources.devices in allow or in deny"),
            (Some(&["resources", "resources.devices"]), &[], ""),
            (Some(&["resources"]), &["resources.devices"], ""),
            (Some(&["resources"]), &["devices"], ""),
            (Some(&["resources.devices"]), &["devices"], "allows resources.devices and denies"),
            (Some(&["rdt"]), &["resources.rdt_class"], "allows rdt and denies resources.rdt_class"),
            (Some(&["resources.rdt_class"]), &["rdt"], "allows resources.rdt_class and denies rdt"),
            (Some(&["resources.rdt_class", "rdt"]), &["rdt", "resources.rdt_class"], "same effect"),
        ];
        for (allow, deny, expected) in cases {
            let allow = allow.map(|groups| groups.iter().copied());
            let permissions = Permissions::new(allow, deny.iter().copied()).unwrap();
            let error = permissions.unambiguous("a").err().map(|e| e.to_string());
            let matches = error.as_ref().map_or(expected.is_empty(), |e| e.contains(expected));
            assert!(matches && error.is_some() != expected.is_empty(), "{permissions:?} {error:?}");
        }
    }
}

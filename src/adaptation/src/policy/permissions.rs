//! Which groups of fields a plugin may change, and the error of a reply that changes others.
//!
//! The groups are a table in [`crate::policy::fields`]; [`crate::policy::reply_check`] applies the
//! permissions to a reply.

use crate::policy::fields::{RESOURCES, field_groups};
use nri_api::PluginId;
use std::collections::BTreeSet;

/// Groups of fields that a plugin may change; all of them by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    allow: Option<BTreeSet<&'static str>>,
    deny: BTreeSet<&'static str>,
}

/// A name that is no group of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown field group {0:?}")]
pub struct UnknownGroup(pub String);

/// A change that a plugin requested without the permission for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin} may not {what}: {why}")]
pub struct PermissionDenied {
    /// Plugin that requested the change.
    pub plugin: PluginId,
    /// The change, such as "adjust hooks of c".
    pub what: String,
    /// Id of the container that would have changed.
    pub container: String,
    /// Rule of the policy that denies it.
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
    #[error("the policy {policy:?} does not allow {group}")]
    NotAllowed {
        /// `match` of the policy.
        policy: String,
        /// Group that would have to be allowed.
        group: &'static str,
    },
    /// The field is in no group that this program knows.
    #[error("the policy {policy:?} restricts the plugin, and the field is in no group")]
    Unknown {
        /// `match` of the policy.
        policy: String,
    },
}

impl Permissions {
    /// Allows the groups of `allow` (`None` allows all), without those of `deny`.
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

    pub(crate) fn allows_everything(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Whether `deny` names the group itself.
    pub(crate) fn denies(&self, group: &str) -> bool {
        self.deny.contains(group)
    }

    /// Checks whether a group may be changed; `None` is a field in no group.
    pub(crate) fn check(
        &self,
        policy: &str,
        group: Option<&'static str>,
    ) -> Result<(), DenialReason> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_group_is_an_error() {
        assert_eq!(Permissions::new(Some(["mount"]), []), Err(UnknownGroup("mount".into())));
    }
}

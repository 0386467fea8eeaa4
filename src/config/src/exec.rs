//! `[exec]`: what `exec` may give to a process that its container does not have.

use crate::reference::{choices, section};
use serde::Deserialize;

section! {
    /// What an `exec` may give to its process that the process of the container does not have; see
    /// [security](security.md#limits-of-exec). A reload takes changes, for containers that are
    /// created from then on: an `exec` obeys the values of the creation.
    #[section("[exec]", "Limits of exec")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ExecSettings {
        /// An `exec` with capabilities that no process of the container can have, without
        /// `no_new_privs` if the container has it, or with another AppArmor profile or SELinux
        /// label than the container, as `docker exec --privileged` and `podman exec --privileged`
        /// request it.
        #[key(Choice(ExecPolicy::CHOICES), Value("\"allow\""), "\"refuse\"")]
        #[serde(alias = "more-rights")]
        pub more_rights: ExecPolicy,
        /// An `exec` with another user or group than the container, as `docker exec --user`
        /// requests it.
        #[key(Choice(ExecPolicy::CHOICES), Value("\"allow\""), "\"refuse\"")]
        #[serde(alias = "other-user")]
        pub other_user: ExecPolicy,
    }
}

impl ExecSettings {
    /// Whether there is an `exec` that is refused.
    pub fn refuses(&self) -> bool {
        [self.more_rights, self.other_user].contains(&ExecPolicy::Refuse)
    }
}

choices! {
    /// Reaction to an `exec`.
    pub enum ExecPolicy {
        /// The runtime runs it.
        Allow = "allow",
        /// It fails, and the error names what the container does not have.
        Refuse = "refuse",
    }
}

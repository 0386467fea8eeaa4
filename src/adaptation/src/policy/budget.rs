//! Budget of a plugin's replies, and the plugins that it does not limit.
//!
//! A plugin that decides whether containers may be created must not become absent because it is
//! slow: otherwise whoever makes it slow would be rid of it. [`BudgetExemption`] lists these
//! plugins; [`crate::plugin::breaker`] decides when another plugin is limited.

use std::fmt;
use std::time::Duration;

/// Budget of a plugin's replies to creations and updates of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Time of a reply; a longer one is slow.
    pub time: Duration,
    /// The plugin is limited while more than this percentage of containers had slow replies.
    pub share: u8,
    /// Time during which requests skip a plugin that is limited, before it is tried again.
    pub pause: Duration,
}

impl fmt::Display for Budget {
    /// Writes why a plugin is limited.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, share, .. } = self;
        write!(f, "more than {share}% of recent containers took longer than {time:?}")
    }
}

/// Reason why a budget does not limit a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetExemption {
    /// The plugin is required, by a policy or by the built-in validator.
    Required,
    /// A request without the plugin's reply fails, as the administrator has decided.
    OnFailure,
    /// A request without the plugin's reply fails, as the plugin has requested.
    FailRequest,
}

impl fmt::Display for BudgetExemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "the plugin is required",
            Self::OnFailure => "on_failure is \"fail\"",
            Self::FailRequest => "the plugin has asked for failed requests (fail_request)",
        })
    }
}

//! Handling of a plugin's failures: what the administrator configured, together with what the
//! plugin requests in its reply to `Configure`.
//!
//! A failure is a timeout, a broken protocol or a lost connection; an error that the plugin replies
//! is none. The rules, as a table: `docs/reference/plugins.md`.

use crate::policy::budget::BudgetExemption;
use crate::policy::plugin_policy::{OnFailure, PluginPolicy};
use nri_api::proto::ConfigureResponse;

/// Failure policy that a plugin requests for itself (`FailurePolicy` of the protocol).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedFailurePolicy {
    /// The request fails, instead of continuing without the plugin.
    pub fail_request: bool,
    /// Timeouts do not close the connection.
    pub keep_connected: bool,
}

impl RequestedFailurePolicy {
    /// Returns the policy in the reply to `Configure`, if the plugin requests one.
    pub(crate) fn of(reply: &ConfigureResponse) -> Option<Self> {
        reply.failure_policy.as_ref().map(|policy| Self {
            fail_request: policy.fail_request,
            keep_connected: policy.keep_connected,
        })
    }
}

/// Handling of a plugin's failures that is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureHandling {
    /// Handling of a request that the plugin does not reply to.
    pub on_failure: OnFailure,
    /// Handling of a creation that the plugin, as a validator, does not reply to.
    pub validation_failure: OnFailure,
    /// Number of consecutive timeouts after which the connection is closed; 0 never closes it.
    pub consecutive_timeouts: u32,
}

impl PluginPolicy {
    /// Returns the handling of failures of a plugin that requests this policy: the stricter one for
    /// requests, and for the connection the administrator's word if there is one, else the
    /// plugin's.
    pub fn failure_handling(&self, requested: Option<RequestedFailurePolicy>) -> FailureHandling {
        let requested = requested.unwrap_or_default();
        let stricter = |own| if requested.fail_request { OnFailure::Fail } else { own };
        FailureHandling {
            on_failure: stricter(self.on_failure),
            validation_failure: stricter(self.validation_failure),
            consecutive_timeouts: self
                .consecutive_timeouts
                .unwrap_or(u32::from(!requested.keep_connected)),
        }
    }

    /// Returns why a budget does not limit a plugin that requests this policy and is not required;
    /// `None` if it does.
    pub(crate) fn budget_exemption(
        &self,
        requested: Option<RequestedFailurePolicy>,
    ) -> Option<BudgetExemption> {
        match (self.on_failure, self.failure_handling(requested).on_failure) {
            (OnFailure::Fail, _) => Some(BudgetExemption::OnFailure),
            (OnFailure::Ignore, OnFailure::Fail) => Some(BudgetExemption::FailRequest),
            (OnFailure::Ignore, OnFailure::Ignore) => None,
        }
    }
}

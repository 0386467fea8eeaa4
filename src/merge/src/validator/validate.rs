//! Check of an outcome against all rules.

use crate::validator::config::DefaultValidatorConfig;
use crate::validator::rejection::Rejection;
use crate::validator::{required, restricted};
use nri_api::proto::ValidateContainerAdjustmentRequest;

/// Checks an outcome ([`crate::CreateOutcome::validation`]) against the rules.
///
/// # Errors
/// The first rule that is violated, in the order: hooks, seccomp, namespaces, required plugins,
/// sysctls.
pub fn validate(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    restricted::hooks(config, request)?;
    restricted::seccomp(config, request)?;
    restricted::namespaces(config, request)?;
    required::plugins(config, request)?;
    restricted::sysctls(config, request)
}

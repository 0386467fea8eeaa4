//! Rules on the fields that plugins may adjust.

use crate::validator::config::DefaultValidatorConfig;
use crate::validator::rejection::Rejection;
use nri_api::proto::security_profile::ProfileType;
use nri_api::proto::{Field, FieldOwners, ValidateContainerAdjustmentRequest};
use protobuf::Enum;

pub(super) fn hooks(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    match simple_owner(request, Field::OciHooks) {
        Some(plugins) if config.reject_oci_hook_adjustment => {
            Err(Rejection::OciHooks { plugins: plugins.to_owned() })
        }
        _ => Ok(()),
    }
}

pub(super) fn seccomp(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    let Some(plugin) = simple_owner(request, Field::SeccompPolicy) else { return Ok(()) };
    let profile =
        request.container.linux.seccomp_profile.as_ref().map(|p| p.profile_type.enum_value());
    let (rejected, profile) = match profile {
        None | Some(Ok(ProfileType::UNCONFINED)) => {
            (config.reject_unconfined_seccomp_adjustment, "unconfined")
        }
        Some(Ok(ProfileType::RUNTIME_DEFAULT)) => {
            (config.reject_runtime_default_seccomp_adjustment, "runtime default")
        }
        // A type that this version does not know counts as a custom profile.
        Some(Ok(ProfileType::LOCALHOST) | Err(_)) => {
            (config.reject_custom_seccomp_adjustment, "custom")
        }
    };
    if rejected { Err(Rejection::Seccomp { plugin: plugin.to_owned(), profile }) } else { Ok(()) }
}

pub(super) fn namespaces(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    let offenders = key_owners(request, Field::Namespace, |_| true);
    if config.reject_namespace_adjustment && !offenders.is_empty() {
        return Err(Rejection::Namespaces { offenders });
    }
    Ok(())
}

pub(super) fn sysctls(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    let offenders =
        key_owners(request, Field::Sysctl, |key| request.adjust.linux.sysctl.contains_key(key));
    if config.reject_sysctl_adjustment && !offenders.is_empty() {
        return Err(Rejection::Sysctls { offenders });
    }
    Ok(())
}

fn owners(request: &ValidateContainerAdjustmentRequest) -> Option<&FieldOwners> {
    request.owners.owners.get(&request.container.id)
}

fn simple_owner(request: &ValidateContainerAdjustmentRequest, field: Field) -> Option<&str> {
    owners(request)?.simple.get(&field.value()).map(String::as_str)
}

fn key_owners(
    request: &ValidateContainerAdjustmentRequest,
    field: Field,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let keys = owners(request).and_then(|owners| owners.compound.get(&field.value()));
    let mut owners: Vec<_> = keys
        .into_iter()
        .flat_map(|keys| keys.owners.iter())
        .filter(|(key, _)| wanted(key))
        .map(|(key, plugin)| (key.clone(), plugin.clone()))
        .collect();
    owners.sort_unstable();
    owners
}

//! The built-in validator: an operator's rules on what plugins may adjust, as upstream's default
//! validator has them.
//!
//! It judges owners, not values: what nobody owns (rules of the device cgroup, removals of what
//! only the container had) passes. Start from [`validate`].

mod annotation;
mod required;
mod restricted;

use nri_api::proto::ValidateContainerAdjustmentRequest;

/// The annotation of a pod that names plugins which must have been asked: `KEY/container.NAME`,
/// `KEY/pod` or `KEY`.
pub const REQUIRED_PLUGINS_ANNOTATION: &str = "required-plugins.noderesource.dev";

/// The operator's rules. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultValidatorConfig {
    /// Refuse OCI hooks.
    pub reject_oci_hook_adjustment: bool,
    /// Refuse a seccomp policy where the container has the runtime's default profile.
    pub reject_runtime_default_seccomp_adjustment: bool,
    /// Refuse a seccomp policy where the container is unconfined, or where nothing is known of its
    /// profile.
    pub reject_unconfined_seccomp_adjustment: bool,
    /// Refuse a seccomp policy where the container has a profile of its own.
    pub reject_custom_seccomp_adjustment: bool,
    /// Refuse changes of namespaces, removals included.
    pub reject_namespace_adjustment: bool,
    /// Refuse sysctls.
    pub reject_sysctl_adjustment: bool,
    /// Plugins, as `name` or `NN-name`, that must have been asked about every container.
    pub required_plugins: Vec<String>,
    /// Annotation of a pod (scoped as [`REQUIRED_PLUGINS_ANNOTATION`]) whose true value lets
    /// required plugins be missing.
    pub tolerate_missing_plugins_annotation: Option<String>,
}

/// Why an adjustment was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Hooks.
    #[error("plugins {plugins:?} attempted restricted OCI hook injection")]
    OciHooks {
        /// All that injected any, joined by commas.
        plugins: String,
    },
    /// Seccomp.
    #[error("plugin {plugin:?} attempted restricted {profile} seccomp policy adjustment")]
    Seccomp {
        /// Who set the policy.
        plugin: String,
        /// Kind of the container's own profile: `unconfined`, `runtime default`, `custom`.
        profile: &'static str,
    },
    /// Namespaces.
    #[error("attempted restricted namespace adjustment by {}", list(offenders, "namespace"))]
    Namespaces {
        /// Namespace type and plugin, sorted.
        offenders: Vec<(String, String)>,
    },
    /// Sysctls.
    #[error("attempted restricted sysctl adjustment by {}", list(offenders, "sysctl"))]
    Sysctls {
        /// Sysctl and plugin, sorted.
        offenders: Vec<(String, String)>,
    },
    /// Plugins that had to be asked were not.
    #[error("required plugins {missing:?} not present")]
    MissingPlugins {
        /// As the configuration or the annotation names them.
        missing: Vec<String>,
    },
    /// An annotation cannot be read, so nobody knows what it asks for.
    #[error("annotation {key} of the pod is {value:?}, which is not {wanted}")]
    InvalidAnnotation {
        /// Annotation without its scope.
        key: String,
        /// What it says.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
}

/// Judges an outcome ([`crate::CreateOutcome::validation`]).
///
/// # Errors
/// The first rule that is broken, in the order: hooks, seccomp, namespaces, required plugins,
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

fn list(offenders: &[(String, String)], what: &str) -> String {
    offenders
        .iter()
        .map(|(key, plugin)| format!("plugin {plugin:?} ({what} {key:?})"))
        .collect::<Vec<_>>()
        .join(", ")
}

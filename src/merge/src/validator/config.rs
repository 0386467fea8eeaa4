//! Configuration of the built-in validator.

/// Key of the annotation of a pod that names required plugins. The scope of the annotation is one
/// container (`KEY/container.NAME`) or the pod (`KEY/pod` or `KEY`).
pub const REQUIRED_PLUGINS_ANNOTATION: &str = "required-plugins.noderesource.dev";

/// Rules of the operator. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultValidatorConfig {
    /// Rejects OCI hooks.
    pub reject_oci_hook_adjustment: bool,
    /// Rejects a seccomp policy if the container has the runtime's default profile.
    pub reject_runtime_default_seccomp_adjustment: bool,
    /// Rejects a seccomp policy if the container is unconfined or the request has no profile.
    pub reject_unconfined_seccomp_adjustment: bool,
    /// Rejects a seccomp policy if the container has a custom profile.
    pub reject_custom_seccomp_adjustment: bool,
    /// Rejects changes of namespaces, removals included.
    pub reject_namespace_adjustment: bool,
    /// Rejects sysctls.
    pub reject_sysctl_adjustment: bool,
    /// Plugins, as `name` or `NN-name`, that must be consulted for every container.
    pub required_plugins: Vec<String>,
    /// Key of an annotation of a pod that, if true, allows required plugins to be missing. It has
    /// the same scopes as [`REQUIRED_PLUGINS_ANNOTATION`].
    pub tolerate_missing_plugins_annotation: Option<String>,
}

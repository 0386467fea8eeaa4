//! Reasons for a rejection, with the texts of upstream NRI's default validator, word for word: also
//! `plugins` for one plugin.

/// Reason why an adjustment was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// OCI hooks are rejected.
    #[error("plugins {plugins:?} attempted restricted OCI hook injection")]
    OciHooks {
        /// Plugins that added hooks, joined by commas.
        plugins: String,
    },
    /// Seccomp policies are rejected for containers with this profile.
    #[error("plugin {plugin:?} attempted restricted {profile} seccomp policy adjustment")]
    Seccomp {
        /// Plugin that set the policy.
        plugin: String,
        /// Profile of the container: `unconfined`, `runtime default` or `custom`.
        profile: &'static str,
    },
    /// Changes of namespaces are rejected.
    #[error("attempted restricted namespace adjustment by {}", list(offenders, "namespace"))]
    Namespaces {
        /// Namespace type and plugin, sorted.
        offenders: Vec<(String, String)>,
    },
    /// Sysctls are rejected.
    #[error("attempted restricted sysctl adjustment by {}", list(offenders, "sysctl"))]
    Sysctls {
        /// Sysctl and plugin, sorted.
        offenders: Vec<(String, String)>,
    },
    /// Required plugins were not consulted.
    #[error("required plugins {missing:?} not present")]
    MissingPlugins {
        /// Names as in the configuration or the annotation.
        missing: Vec<String>,
    },
    /// An annotation cannot be parsed.
    #[error("annotation {key} of the pod is {value:?}, which is not {wanted}")]
    InvalidAnnotation {
        /// Key of the annotation without its scope.
        key: String,
        /// Value of the annotation.
        value: String,
        /// Expected type of the value.
        wanted: &'static str,
    },
}

fn list(offenders: &[(String, String)], what: &str) -> String {
    offenders
        .iter()
        .map(|(key, plugin)| format!("plugin {plugin:?} ({what} {key:?})"))
        .collect::<Vec<_>>()
        .join(", ")
}

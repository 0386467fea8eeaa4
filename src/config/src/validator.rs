//! `[default_validator]`: rules that refuse adjustments, with upstream's keys.

use crate::reference::section;
use serde::Deserialize;

section! {
    /// Rules that refuse a container if plugins have adjusted what is listed here. Keys and effects
    /// are those of upstream's default validator.
    #[section("[default_validator]", "Validation of adjustments")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ValidatorSettings {
        /// Enables the section, and the annotation `required-plugins.noderesource.dev` of pods.
        #[key(Boolean, Value("false"), "true")]
        pub enable: bool,
        /// Refuses OCI hooks.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-oci-hook-adjustment")]
        pub reject_oci_hook_adjustment: bool,
        /// Refuses a seccomp policy in place of the runtime's default profile.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-runtime-default-seccomp-adjustment")]
        pub reject_runtime_default_seccomp_adjustment: bool,
        /// Refuses a seccomp policy for unconfined containers.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-unconfined-seccomp-adjustment")]
        pub reject_unconfined_seccomp_adjustment: bool,
        /// Refuses a seccomp policy in place of a profile of the container's own.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-custom-seccomp-adjustment")]
        pub reject_custom_seccomp_adjustment: bool,
        /// Refuses changes of namespaces.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-namespace-adjustment")]
        pub reject_namespace_adjustment: bool,
        /// Refuses changes of sysctls.
        #[key(Boolean, Value("false"), "true")]
        #[serde(alias = "reject-sysctl-adjustment")]
        pub reject_sysctl_adjustment: bool,
        /// Refuses containers for which one of these plugins was not called.
        #[key(
            List("List of plugins, as `NN-name` or `name`"),
            Value("[]"),
            "[\"10-device-injector\"]"
        )]
        #[serde(alias = "required-plugins")]
        pub required_plugins: Vec<String>,
        /// Annotation of a pod that allows required plugins to be missing.
        #[key(
            Text("Name of an annotation"),
            Derived("required plugins are required of every pod."),
            "\"example.com/tolerate-missing-plugins\""
        )]
        #[serde(alias = "tolerate-missing-plugins-annotation")]
        pub tolerate_missing_plugins_annotation: Option<String>,
    }
}

//! `[connections]` and `[opt_out]`: which plugins may connect, and which containers they are not
//! called for.

use crate::{paths, reference::section};
use serde::Deserialize;
use std::path::PathBuf;

section! {
    /// Containers for which no plugin is called.
    #[section("[opt_out]", "Containers that opt out")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct OptOutSettings {
        /// Containers and pods opt out by this annotation with the value `true`. Labels count if
        /// `[pods] annotations_from_labels` makes them annotations.
        #[key(
            Text("Name of an annotation"),
            Derived("no container can opt out."),
            "\"example.com/no-nri\""
        )]
        pub annotation: Option<String>,
    }
}

section! {
    /// Which plugins may connect by themselves, and how many.
    #[section("[connections]", "External plugins")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ConnectionSettings {
        /// Users that may connect, besides root and the user of `nrid`.
        #[key(List("List of user ids"), Value("[]"), "[1000]")]
        #[serde(alias = "allow-uids")]
        pub allow_uids: Vec<u32> = Vec::new(),
        /// Programs that may connect.
        #[key(List("List of paths"), Derived("any program."), "[\"/usr/local/bin/my-plugin\"]")]
        #[serde(alias = "allow-programs", deserialize_with = "paths::absolute_list_option")]
        pub allow_programs: Option<Vec<PathBuf>> = None,
        /// Number of connections that may wait for their registration at the same time. One
        /// process, or one container, has a quarter of them; a quarter is kept for processes of the
        /// host.
        #[key(Integer, Value("64"), "16")]
        #[serde(alias = "max-unregistered")]
        pub max_unregistered: usize = 64,
        /// Number of plugins, launched ones included. The external plugins of one process, or of
        /// one container, have a quarter of them; a quarter is kept for plugins with a policy of
        /// their own (`[[plugin]]`, other than `*`).
        #[key(Integer, Value("256"), "32")]
        #[serde(alias = "max-plugins")]
        pub max_plugins: usize = 256,
    }
}

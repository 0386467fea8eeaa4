//! `mode`, `scope` and `outside_scope` of `[[plugin]]`: for which containers a plugin has an
//! effect.

use crate::reference::choices;
use serde::Deserialize;
use std::collections::BTreeMap;

choices! {
    /// Whether what a plugin changes and refuses takes effect.
    pub enum PluginMode {
        /// It does.
        Apply = "apply",
        /// The plugin is called as always, and what it would have changed or refused is logged.
        /// Other plugins do not see its changes, and it is not `required`.
        Observe = "observe",
    }
}

choices! {
    /// What a plugin sees of pods and containers outside its scope.
    pub enum OutsideScope {
        /// Nothing: no events, no part of `Synchronize`; updates fail as for unknown containers.
        Hidden = "hidden",
        /// Everything, and what it would have changed or refused is logged.
        ReadOnly = "read_only",
    }
}

/// The containers that a plugin is for. Texts are patterns, in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginScope {
    /// Namespaces of pods; `None`: any.
    pub namespaces: Option<Vec<String>>,
    /// Names of engines; `None`: any.
    pub engines: Option<Vec<String>>,
    /// Base names of real runtimes; `None`: any.
    pub runtimes: Option<Vec<String>>,
    /// Labels of pods, with the patterns of their values.
    pub labels: BTreeMap<String, String>,
    /// Names of images; `None`: any.
    pub images: Option<Vec<String>>,
}

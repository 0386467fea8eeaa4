//! What `nrid --dry-run` prints, and `nrictl dry-run` shows.

use nri_files::FieldChange;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What plugins would do at the creation of a container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DryRun {
    /// Id of the container.
    pub container: String,
    /// Name of the container.
    pub name: String,
    /// Engine of the container.
    pub engine: String,
    /// Id of the container's pod.
    pub pod: String,
    /// Path of the low-level runtime.
    pub runtime: String,
    /// Reason why no plugin adjusts this container, if so: none was asked then.
    pub skipped: Option<String>,
    /// All plugins, in the order of their index.
    pub plugins: Vec<DryRunPlugin>,
    /// `config.json` as the engine wrote it.
    pub before: Value,
    /// The adjusted `config.json`; `None` if the creation would be refused.
    pub after: Option<Value>,
    /// The changes in `config.json` by plugin.
    pub changes: Vec<DryRunChanges>,
    /// Updates of other containers.
    pub updates: Vec<DryRunUpdate>,
    /// Evictions of other containers.
    pub evictions: Vec<DryRunEviction>,
    /// Parts of replies that have no effect.
    pub ignored: Vec<String>,
    /// Reason why the creation would be refused.
    pub refusal: Option<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// A plugin of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunPlugin {
    /// Name of the plugin: `NN-name`.
    pub name: String,
    /// Whether the plugin was asked, and has replied.
    pub answer: DryRunAnswer,
    /// Why it was not asked, or has not replied.
    pub reason: Option<String>,
    /// Updates and evictions that it requested outside of the creation. They were not performed.
    pub requests: Vec<String>,
    /// Lines that it wrote to standard output and error.
    pub output: Vec<String>,
}

/// Whether a plugin has replied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DryRunAnswer {
    /// The plugin was asked, and has replied.
    Asked,
    /// The plugin was not asked.
    NotAsked,
    /// The plugin could not be launched, or has not replied.
    Failed,
}

/// The changes of one plugin, or of several that contributed to them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DryRunChanges {
    /// `NN-name`; several are separated by commas.
    pub plugin: String,
    /// The changes.
    pub changes: Vec<FieldChange>,
}

/// An update of another container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunUpdate {
    /// Id of the container.
    pub container: String,
    /// The plugins that request the update.
    pub plugins: Vec<String>,
    /// The fields and their values.
    pub fields: String,
}

/// An eviction of another container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunEviction {
    /// Id of the container.
    pub container: String,
    /// The plugin that requests the eviction.
    pub plugin: String,
    /// Reason that the plugin gives.
    pub reason: String,
}

impl DryRun {
    /// Whether the creation would be refused, or a plugin did not reply.
    pub fn has_problem(&self) -> bool {
        let has_failed = |plugin: &DryRunPlugin| plugin.answer == DryRunAnswer::Failed;
        self.refusal.is_some() || self.plugins.iter().any(has_failed)
    }
}

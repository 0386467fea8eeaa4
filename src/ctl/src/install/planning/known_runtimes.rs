//! Runtimes that an engine has apart from our runtimes. An engine may fail to start if its default
//! runtime is not among its runtimes, so `uninstall` checks the default runtime that it restores.

use super::{
    manifest::{Change, EngineRecord},
    plan::{Content, InstallPlan},
};
use crate::install::{
    editing::file::ConfigFile,
    engines::{kind::TargetEngine, table::RuntimeTable},
    error::InstallError,
    install_root::InstallRoot,
};
use std::collections::BTreeSet;

/// Names of an engine's runtimes that are not ours.
#[derive(Debug)]
pub(super) struct KnownRuntimes {
    engine: TargetEngine,
    names: BTreeSet<String>,
}

impl KnownRuntimes {
    /// Reads the names from all files of the engine, except the names that the installation in
    /// `record` has added.
    pub(super) fn without(
        root: &InstallRoot,
        engine: TargetEngine,
        tables: &[RuntimeTable],
        record: &EngineRecord,
    ) -> Result<Self, InstallError> {
        let mut names = BTreeSet::new();
        for table in tables {
            let is_ours = |name: &String| {
                let at = table.runtime(name);
                record.changes.iter().any(|c| c.is_at(&table.file, &at) && c.previous.is_none())
            };
            let all = table.all(root)?.into_iter().map(|(name, _)| name);
            names.extend(all.filter(|name| !is_ours(name)));
        }
        Ok(Self { engine, names })
    }

    /// Whether the engine starts with this default runtime.
    fn can_be_default(&self, name: &str) -> bool {
        // Podman takes paths of runtimes; dockerd takes paths, and names of shims
        // (`io.containerd.kata.v2`).
        let is_direct =
            name.starts_with('/') || self.engine == TargetEngine::Docker && name.contains('.');
        let is_reserved = self.engine.facts().reserved.contains(&name);
        name.is_empty() || is_direct || is_reserved || self.names.contains(name)
    }

    /// Returns the default runtime that undoing a change would restore, if that runtime is missing.
    pub(super) fn missing<'a>(
        &self,
        table: Option<&RuntimeTable>,
        change: &'a Change,
    ) -> Option<&'a str> {
        table.filter(|table| table.default == change.path)?;
        change.previous.as_ref()?.as_str().filter(|name| !self.can_be_default(name))
    }

    /// Returns a note if the default runtime will be missing: after our default is removed, the
    /// default of another file applies.
    pub(super) fn note_on_default(
        &self,
        root: &InstallRoot,
        tables: &[RuntimeTable],
        plan: &InstallPlan,
    ) -> Option<String> {
        let default = |table: &RuntimeTable| {
            let file = match plan.steps.iter().find(|step| step.path == table.file) {
                Some(step) => match &step.after {
                    Content::Bytes(bytes) => {
                        ConfigFile::parse(&table.file, table.format, bytes).ok()
                    }
                    _ => None,
                },
                None => table.read(root).ok().flatten(),
            };
            file?.get(&table.default).ok().flatten()
        };
        let (table, value) =
            tables.iter().rev().find_map(|table| Some((table, default(table)?)))?;
        let name = value.as_str().filter(|name| !self.can_be_default(name))?;
        let file = table.file.display();
        Some(format!("{file}: the default runtime is {name:?}, which no file defines"))
    }
}

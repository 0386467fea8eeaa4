//! Defaults that name a runtime which is not there: with one of them an engine may not start.

use super::{
    document::Document,
    engine::{Engine, Schema},
    error::InstallError,
    manifest::{Change, EngineRecord},
    plan::{Content, Plan},
    root::Root,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Names that a default may be when nothing of ours is there any more.
#[derive(Debug)]
pub(crate) struct Names {
    engine: Engine,
    found: BTreeSet<String>,
}

impl Names {
    /// Of all files of the engine.
    pub(crate) fn without(
        root: &Root,
        engine: Engine,
        schemas: &[Schema],
        record: &EngineRecord,
    ) -> Result<Self, InstallError> {
        let mut found = BTreeSet::new();
        for schema in schemas {
            let Some(document) = schema.read(root)? else { continue };
            let runtimes = document.get(&schema.runtimes);
            let runtimes = runtimes.map_err(|e| InstallError::Document(schema.file.clone(), e))?;
            for name in
                runtimes.iter().filter_map(Value::as_object).flat_map(|runtimes| runtimes.keys())
            {
                let at = schema.runtime(name);
                let goes =
                    |c: &Change| c.file == schema.file && c.path == at && c.previous.is_none();
                if !record.changes.iter().any(goes) {
                    found.insert(name.clone());
                }
            }
        }
        Ok(Self { engine, found })
    }

    /// Whether an engine that has this default has its runtime.
    pub(crate) fn has(&self, name: &str) -> bool {
        // Paths of runtimes are taken by Podman, paths and names of shims (`io.containerd.kata.v2`)
        // by dockerd.
        let direct = name.starts_with('/') || self.engine == Engine::Docker && name.contains('.');
        name.is_empty()
            || direct
            || self.engine.reserved().contains(&name)
            || self.found.contains(name)
    }

    /// The default that a change would bring back, if its runtime has gone.
    pub(crate) fn missing<'a>(
        &self,
        schema: Option<&Schema>,
        change: &'a Change,
    ) -> Option<&'a str> {
        schema.filter(|schema| schema.default == change.path)?;
        change.previous.as_ref()?.as_str().filter(|name| !self.has(name))
    }

    /// What somebody else's file says once ours does not decide any more: it is not ours to change.
    pub(crate) fn left(&self, root: &Root, schemas: &[Schema], plan: &Plan) -> Option<String> {
        let default = |schema: &Schema| {
            let document = match plan.steps.iter().find(|step| step.path == schema.file) {
                Some(step) => match &step.after {
                    Content::Bytes(bytes) => Document::parse(schema.format, bytes).ok(),
                    _ => None,
                },
                None => schema.read(root).ok().flatten(),
            };
            document?.get(&schema.default).ok().flatten()
        };
        let (schema, value) =
            schemas.iter().rev().find_map(|schema| Some((schema, default(schema)?)))?;
        let name = value.as_str().filter(|name| !self.has(name))?;
        let file = schema.file.display();
        Some(format!("{file}: the default runtime is {name:?}, of which no file tells what it is"))
    }
}

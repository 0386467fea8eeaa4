//! Installation into one file: values are set, and the replaced values are recorded.

use super::{
    manifest::{Change, FileRecord},
    plan::{Content, InstallPlan, InstallStep},
};
use crate::install::{
    editing::file::{ConfigFile, in_effect},
    engines::request::FileTarget,
    error::InstallError,
    install_root::InstallRoot,
};
use nri_host::sha256;
use serde_json::{Map, Value};
use std::path::{Component, Path, PathBuf};

impl InstallPlan {
    /// Sets the values of a target. Returns the new bytes of the file; `None` if nothing changes.
    pub(crate) fn edit(
        &mut self,
        root: &InstallRoot,
        engine: &str,
        target: &FileTarget,
    ) -> Result<Option<Vec<u8>>, InstallError> {
        let before = root.read(&target.file)?;
        let text = before.as_deref().unwrap_or(target.header.as_bytes());
        let mut file = ConfigFile::parse(&target.file, target.format, text)?;
        let mut expected = file.value();
        let mut changes = std::mem::take(&mut self.manifest.engine(engine).changes);
        let mut is_changed = false;
        for at in &target.unset {
            let index = changes.iter().position(|change| change.is_at(&target.file, at));
            let Some(change) = index.map(|index| changes.remove(index)) else { continue };
            if file.get(at)?.is_some_and(|current| in_effect(&current, &change.value)) {
                change.undo(&mut file)?;
                expected = file.value();
                is_changed = true;
            }
        }
        for (at, value) in &target.values {
            let current = file.get(at)?;
            let known = changes.iter_mut().find(|change| change.is_at(&target.file, at));
            if current.as_ref().is_some_and(|current| in_effect(current, value)) {
                // A value that two engines need is recorded for both, so that it stays until both
                // are uninstalled.
                if known.is_none() {
                    changes.extend(self.manifest.shared(engine, &target.file, at).cloned());
                }
                continue;
            }
            let created = file.set(at, value)?;
            set_in_tree(&mut expected, at, value);
            is_changed = true;
            match known {
                Some(known) => known.replace(value, current, created),
                None => changes.push(Change {
                    file: target.file.clone(),
                    path: at.clone(),
                    value: value.clone(),
                    previous: current,
                    made: created,
                }),
            }
        }
        let record = self.manifest.engine(engine);
        record.changes = changes;
        if *record == Default::default() {
            self.manifest.engines.remove(engine);
        }
        if !is_changed {
            return Ok(None);
        }
        let after = file.bytes();
        if ConfigFile::parse(&target.file, target.format, &after)?.value() != expected {
            let at = target.values.first().map(|(at, _)| &**at).unwrap_or_default();
            return Err(file.layout_error(at).into());
        }
        self.record(root, target, before.as_deref(), &after);
        self.step(&target.file, before, Some(after.clone()));
        Ok(Some(after))
    }

    /// Records a change of a file; with the first change, adds a backup of the original file.
    fn record(
        &mut self,
        root: &InstallRoot,
        target: &FileTarget,
        before: Option<&[u8]>,
        after: &[u8],
    ) {
        let after = sha256(after);
        if let Some(record) = self.manifest.files.get_mut(&target.file) {
            record.unbroken = record.matches(before);
            record.after = after;
            return;
        }
        let backup = before.map(|before| {
            let (path, after) =
                (backup_path(root, &target.file), Content::Bytes(before.to_owned()));
            let (before, like) = (Content::Nothing, Some(target.file.clone()));
            self.steps.push(InstallStep { path: path.clone(), before, after, like });
            path
        });
        let (format, before) = (target.format, before.map(sha256));
        let record = FileRecord { format, before, after, backup, unbroken: true };
        self.manifest.files.insert(target.file.clone(), record);
    }
}

/// Returns the path of a file's backup: below our directory, with a number if that path exists
/// already, since it may be the only copy of a configuration.
///
/// The backup is not in the file's own directory: engines read every file of some directories,
/// whatever its name is (CRI-O's drop-ins, files that a pattern of containerd's imports matches).
fn backup_path(root: &InstallRoot, file: &Path) -> PathBuf {
    let inside = file.components().filter(|part| matches!(part, Component::Normal(_)));
    let unnumbered = root.backups().join(inside.collect::<PathBuf>());
    let numbered = (1..).map(|number| {
        let mut name = unnumbered.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    let mut paths = std::iter::once(unnumbered.clone()).chain(numbered);
    paths.find(|path| !root.exists(path)).unwrap_or(unnumbered)
}

/// Sets a value in the tree that the edited file is compared with.
fn set_in_tree(tree: &mut Value, at: &[String], value: &Value) {
    let mut node = tree;
    for name in at {
        if !node.is_object() {
            *node = Value::Object(Map::new());
        }
        let Value::Object(map) = node else { return };
        node = map.entry(name.clone()).or_insert(Value::Null);
    }
    match (&mut *node, value) {
        (Value::Object(_), Value::Object(members)) => {
            for (name, value) in members {
                set_in_tree(node, std::slice::from_ref(name), value);
            }
        }
        _ => *node = value.clone(),
    }
}

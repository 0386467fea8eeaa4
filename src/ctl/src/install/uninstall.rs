//! Removal of what `install` added; everything else stays as it is now.
//!
//! The record names the values that were set. A runtime that calls the wrapper is removed even if
//! the record does not name it, and a file of our own with all that is in it.

use super::{
    engines::{file::EngineFile, kind::TargetEngine},
    error::InstallError,
    install_root::WRAPPER,
    own_config,
    plan::{InstallPlan, MADE_BY, OWN_NAME},
    record::Change,
};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
};

impl InstallPlan<'_> {
    /// Removes what was installed for the engine from `files`, from all files that the record names
    /// and from our configuration.
    ///
    /// # Errors
    /// A file cannot be read or edited.
    pub(super) fn uninstall(
        &mut self,
        files: &[EngineFile],
        own_config: &Path,
    ) -> Result<(), InstallError> {
        let mut record = self.record.engines.remove(self.engine.name()).unwrap_or_default();
        let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
        let mut changes = Vec::new();
        for file in files {
            self.known(&file.file);
            for (name, value) in file.all() {
                let Some(binary) = file.wrapper(self.root, value) else {
                    others.insert(name.as_str());
                    continue;
                };
                ours.insert(name.as_str());
                let (path, at, value) = (&file.file.path, file.runtime(name), value.clone());
                let known = record.changes.iter().position(|change| change.is_at(path, &at));
                let made = known.map_or(1, |index| record.changes.remove(index).made);
                changes.push(Change { file: path.clone(), path: at, value, previous: None, made });
                let is_link =
                    !binary.ends_with(WRAPPER) && self.root.link(binary.as_ref()).is_some();
                record.links.extend(is_link.then(|| PathBuf::from(binary)));
            }
        }
        for mut change in record.changes {
            let file = files.iter().find(|file| file.file.path == change.file);
            if let Some(file) = file.filter(|file| file.default == change.path)
                && let Some(name) = change.previous.as_ref().and_then(|name| name.as_str())
                && !can_be_default(self.engine, name, &others)
            {
                let (file, at) = (file.file.path.display(), file.default.join("."));
                let note = "no longer exists: removed";
                self.notes.push(format!("{file}: {at} replaced {name:?}, which {note}"));
                change.previous = None;
            }
            // A built-in runtime of the engine (`runc` of containerd). `install` wrote it to the
            // file, since without that our runtime would replace it.
            let is_built_in = |file: &EngineFile| {
                change.path.starts_with(&file.runtimes) && file.binary(&change.value).is_none()
            };
            let is_needed = file.is_some_and(is_built_in) && others.len() > 1;
            if !is_needed && change.path != [own_config::POLICIES] {
                changes.push(change);
            }
        }
        // An engine would not start with a default runtime that it does not have.
        for file in files {
            if let Some(name) = file.default_name().filter(|name| ours.contains(name)) {
                let (file, path, value) =
                    (file.file.path.clone(), file.default.clone(), name.into());
                changes.push(Change { file, path, value, previous: None, made: 0 });
            }
        }
        changes.retain(|change| self.record.users(&change.file, &change.path).next().is_none());
        for change in &changes {
            self.undo(change)?;
        }
        // A table that several values needed is empty only after the last of them is removed.
        for change in &changes {
            let file = self.file(&change.file)?;
            if file.get(&change.path).is_none() {
                file.remove(&change.path, change.made)?;
            }
        }
        self.remove_files(files, &changes, own_config)?;
        for link in record.links {
            let is_ours =
                self.root.link(&link).is_some() && self.root.is_ours(&link.to_string_lossy());
            if is_ours && !self.record.is_linked(&link) {
                self.links.push((link, None));
            }
        }
        Ok(())
    }

    /// Removes files of our own, and files that `install` created and that have nothing else.
    fn remove_files(
        &mut self,
        files: &[EngineFile],
        changes: &[Change],
        own_config: &Path,
    ) -> Result<(), InstallError> {
        let engine_files = files.iter().map(|file| &*file.file.path);
        let paths: BTreeSet<&Path> =
            engine_files.chain(changes.iter().map(|change| &*change.file)).collect();
        for path in paths {
            let is_made = changes.iter().any(|c| c.file == path && c.made >= c.path.len())
                || self.record.files.get(path).is_some_and(|file| file["before"].is_null());
            let file = self.file(path)?;
            let mut keys = file.value.as_object().into_iter().flat_map(|top| top.keys());
            let is_bare = keys.all(|key| key == "version");
            file.is_removed = path.file_stem() == Some(OsStr::new(OWN_NAME))
                || is_bare && (is_made || file.text.starts_with(MADE_BY));
        }
        if self.record.engines.is_empty() {
            let file = self.file(own_config)?;
            file.is_removed |= own_config::HEADERS.contains(&&*file.text);
        }
        Ok(())
    }
}

/// Whether the engine starts with a default runtime of this name; `others` are the names in its
/// files.
fn can_be_default(engine: TargetEngine, name: &str, others: &BTreeSet<&str>) -> bool {
    // Podman takes paths of runtimes; dockerd takes paths, and names of shims
    // (`io.containerd.kata.v2`).
    let is_direct = name.starts_with('/') || engine == TargetEngine::Docker && name.contains('.');
    name.is_empty() || is_direct || engine.facts().reserved.contains(&name) || others.contains(name)
}

//! The plan of a command: the files that it changes, decided before anything is written.

use super::{
    editing::file::ConfigFile,
    engines::{
        file::EngineFile,
        kind::TargetEngine,
        request::{InstallRequest, NriChoice, OwnNri},
    },
    error::InstallError,
    install_root::InstallRoot,
    record::{Change, EngineRecord, InstallRecord},
    runtimes::WrapperRuntime,
    write::{Content, PathChange},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
};

/// Beginning of a file that `install` creates for an engine.
pub(super) const MADE_BY: &str = "# Made by ";

/// Name, without extension, of files of our own. It sorts after others such as `99-nvidia`: the
/// last file takes precedence.
pub(super) const OWN_NAME: &str = "zz-nri-container-runtime";

/// Changes of a command.
#[derive(Debug)]
pub(super) struct InstallPlan<'a> {
    pub(super) root: &'a InstallRoot,
    pub(super) engine: TargetEngine,
    /// The files that were read, with their new texts.
    files: BTreeMap<PathBuf, ConfigFile>,
    /// Links that are created, with their targets, or removed.
    pub(super) links: Vec<(PathBuf, Option<PathBuf>)>,
    /// The record as it is, and as it shall be.
    pub(super) old_record: InstallRecord,
    pub(super) record: InstallRecord,
    pub(super) notes: Vec<String>,
}

impl<'a> InstallPlan<'a> {
    /// Returns a plan that changes nothing.
    ///
    /// # Errors
    /// The record cannot be read.
    pub(super) fn new(root: &'a InstallRoot, engine: TargetEngine) -> Result<Self, InstallError> {
        let old_record = InstallRecord::read(root)?;
        let (record, files) = (old_record.clone(), BTreeMap::new());
        Ok(Self { root, engine, files, links: vec![], old_record, record, notes: vec![] })
    }

    /// Returns a file as it shall be.
    ///
    /// # Errors
    /// It cannot be read or parsed.
    pub(super) fn file(&mut self, path: &Path) -> Result<&mut ConfigFile, InstallError> {
        match self.files.entry(path.to_owned()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(ConfigFile::read(self.root, path)?)),
        }
    }

    /// Returns a file as it shall be, which is the one that was read unless it was changed.
    pub(super) fn known(&mut self, file: &ConfigFile) -> &mut ConfigFile {
        self.files.entry(file.path.clone()).or_insert_with(|| file.clone())
    }

    /// Returns the files that change.
    fn changed_files(&self) -> impl Iterator<Item = &ConfigFile> {
        self.files.values().filter(|file| file.before != file.after())
    }

    /// Whether anything changes, apart from the record.
    pub(super) fn changes_files(&self) -> bool {
        !self.links.is_empty() || self.changed_files().next().is_some()
    }

    /// Returns the record of the engine.
    fn engine_record(&mut self) -> &mut EngineRecord {
        self.record.engines.entry(self.engine.name().to_owned()).or_default()
    }

    /// Begins a file of our own, if it does not exist, with its first lines in `file`. `engine` is
    /// the engine's name, with `--user` if it is that of a user.
    ///
    /// # Errors
    /// The lines cannot be parsed.
    pub(super) fn begin(&mut self, file: &EngineFile, engine: &str) -> Result<(), InstallError> {
        let made_by = format!(
            "{MADE_BY}`nrictl install {engine}`; `nrictl uninstall {engine}` removes it.\n"
        );
        let new = self.known(&file.file);
        if new.before.is_none() {
            new.replace_text(made_by + &file.file.text)?;
        }
        Ok(())
    }

    /// Adds the requested runtimes, with the values that `entry` returns, and the default runtime.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn set_runtimes(
        &mut self,
        request: &InstallRequest<'_>,
        file: &EngineFile,
        entry: impl Fn(&WrapperRuntime) -> Value,
    ) -> Result<(), InstallError> {
        for runtime in &request.runtimes {
            self.set(&file.file, &file.runtime(&runtime.name), entry(runtime))?;
        }
        if request.default {
            self.set(&file.file, &file.default, request.name())?;
        }
        Ok(())
    }

    /// If `ours` is requested, switches the engine's own NRI off. If another choice is requested,
    /// undoes an earlier switch.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn switch_nri(
        &mut self,
        request: &InstallRequest<'_>,
        state: OwnNri,
        file: &EngineFile,
    ) -> Result<(), InstallError> {
        let (at, off) = &file.own_nri;
        match request.nri {
            Some(NriChoice::Ours) if matches!(state, OwnNri::On | OwnNri::Unknown) => {
                self.set(&file.file, at, *off)
            }
            Some(NriChoice::Auto | NriChoice::Engine) => self.unset(&file.file, at).map(drop),
            _ => Ok(()),
        }
    }

    /// Sets a value, and records which value it replaces.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn set(
        &mut self,
        file: &ConfigFile,
        at: &[String],
        value: impl Into<Value>,
    ) -> Result<(), InstallError> {
        let (value, path) = (value.into(), &file.path);
        let other = self.record.users(path, at).map(|(_, change)| change.clone()).last();
        let known = self.engine_record().changes.iter().position(|c| c.is_at(path, at));
        let now = self.known(file);
        if now.has(at, &value) {
            // A value that two engines need is recorded for both, so that it stays until both are
            // uninstalled.
            self.engine_record().changes.extend(other.filter(|_| known.is_none()));
            return Ok(());
        }
        let previous = now.get(at).cloned();
        let made = now.set(at, &value)?;
        let changes = &mut self.engine_record().changes;
        let known = known.map(|index| changes.remove(index));
        let new = Change { file: path.clone(), path: at.to_owned(), value, previous, made };
        changes.push(match known {
            // Our earlier value is replaced.
            Some(known) if new.previous.as_ref() == Some(&known.value) => {
                Change { value: new.value, ..known }
            }
            Some(known) => Change { made: known.made.max(made), ..new },
            None => new,
        });
        Ok(())
    }

    /// Undoes the value of an earlier installation. Returns whether there is one.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn unset(&mut self, file: &ConfigFile, at: &[String]) -> Result<bool, InstallError> {
        let changes = &mut self.engine_record().changes;
        let Some(index) = changes.iter().position(|change| change.is_at(&file.path, at)) else {
            return Ok(false);
        };
        let change = changes.remove(index);
        self.known(file);
        self.undo(&change)?;
        Ok(true)
    }

    /// Puts the replaced value back, or removes ours, if the file still has our value.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn undo(&mut self, change: &Change) -> Result<(), InstallError> {
        let file = self.file(&change.file)?;
        match &change.previous {
            _ if !file.has(&change.path, &change.value) => {}
            Some(previous) => drop(file.set(&change.path, previous)?),
            None => file.remove(&change.path, change.made)?,
        }
        Ok(())
    }

    /// Adds a link to the wrapper.
    ///
    /// # Errors
    /// Another file is in its place.
    pub(super) fn link(&mut self, link: &Path, wrapper: &Path) -> Result<(), InstallError> {
        let name = wrapper.file_name().filter(|_| link.parent() == wrapper.parent());
        let target = name.map_or_else(|| wrapper.to_owned(), PathBuf::from);
        let is_free = || self.root.entry(link).is_ok_and(|path| path.symlink_metadata().is_err());
        match self.root.link(link) {
            Some(current) if current == target || self.root.is_ours(&link.to_string_lossy()) => {
                if !self.record.is_linked(link) {
                    return Ok(());
                }
            }
            None if is_free() => self.links.push((link.to_owned(), Some(target))),
            _ => return Err(InstallError::LinkTaken(link.to_owned())),
        }
        self.engine_record().links.insert(link.to_owned());
        Ok(())
    }

    /// Returns all paths that change. `install` writes the record before the files that it
    /// describes, and `uninstall` after them, so that every change is recorded even if the command
    /// is killed.
    pub(super) fn finish(&mut self, is_install: bool) -> Vec<PathChange> {
        let link = |link: Option<&PathBuf>| link.cloned().map_or(Content::Nothing, Content::Link);
        let links = self.links.iter().map(|(path, target)| {
            let before = self.root.link(path);
            let (path, after) = (path.clone(), link(target.as_ref()));
            PathChange { path, before: link(before.as_ref()), after }
        });
        let files = self.changed_files().map(|file| {
            let (before, after) = (file.before.clone().into(), file.after().into());
            PathChange { path: file.path.clone(), before, after }
        });
        let mut changes: Vec<PathChange> = links.chain(files).collect();
        let path = self.root.record();
        if is_install && !changes.is_empty() {
            let paths = changes.iter().map(|change| &*change.path).chain([&*path]);
            let new_dirs = paths.flat_map(|file| file.ancestors().skip(1));
            let new_dirs = new_dirs.filter(|dir| !self.root.exists(dir)).map(Path::to_owned);
            self.record.directories.extend(new_dirs);
            self.engine_record();
        } else if is_install {
            let (old, new) = (&self.old_record.engines, EngineRecord::default());
            self.record.engines.retain(|name, record| *record != new || old.contains_key(name));
        }
        if self.record.engines != self.old_record.engines {
            let (before, after) = (self.old_record.bytes().into(), self.record.bytes().into());
            let at = if is_install { 0 } else { changes.len() };
            changes.insert(at, PathChange { path, before, after });
        }
        changes
    }
}

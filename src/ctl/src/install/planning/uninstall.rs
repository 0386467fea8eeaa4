//! Removal of the changes that `install` made, and of no others.
//!
//! A file that only nrictl has changed is restored byte for byte. In a file that others have edited
//! since the installation, only our values change.

use super::{
    known_runtimes::KnownRuntimes,
    manifest::{Change, FileRecord, Manifest},
    own_values,
    plan::{Content, InstallPlan},
    recognize,
};
use crate::install::{
    editing::file::{ConfigFile, Format, in_effect},
    engines::{kind::TargetEngine, table::RuntimeTable, tables},
    error::InstallError,
    install_root::InstallRoot,
};
use nri_host::sha256;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Returns the plan that removes an engine's changes.
///
/// # Errors
/// A file cannot be read or parsed.
pub(crate) fn plan(
    root: &InstallRoot,
    engine: TargetEngine,
    file: Option<&Path>,
    own_config: &Path,
    manifest: &Manifest,
) -> Result<InstallPlan, InstallError> {
    let tables = tables(engine, root, file)?;
    let mut plan = InstallPlan::new(manifest);
    let record = match plan.manifest.engines.remove(engine.name()) {
        Some(record) => record,
        None => {
            plan.notes = recognize::notes_on_kept(root, engine, own_config, &tables)?;
            recognize::record(root, engine, own_config, &tables, manifest)?
        }
    };
    let known = KnownRuntimes::without(root, engine, &tables, &record)?;
    let mut files: BTreeMap<&Path, Vec<&Change>> = BTreeMap::new();
    for change in &record.changes {
        files.entry(&change.file).or_default().push(change);
    }
    // A file without remaining changes in the manifest is restored as well.
    let is_unused = |file: &&PathBuf| !plan.manifest.is_used_by_others(engine.name(), file);
    let unused: Vec<&Path> = manifest.files.keys().filter(is_unused).map(|file| &**file).collect();
    for file in unused {
        files.entry(file).or_default();
    }
    for (path, changes) in files {
        let table = tables.iter().find(|table| table.file == *path);
        let removal = Removal { engine: engine.name(), path, changes, table, known: &known };
        plan.remove(root, &removal)?;
    }
    for link in &record.links {
        let is_ours = root.is_ours(&link.to_string_lossy());
        if let Some(target) = root.link(link).filter(|_| is_ours)
            && !manifest.is_linked_by_others(engine.name(), link)
        {
            plan.step(link, Content::Link(target), Content::Nothing);
        }
    }
    if !plan.steps.is_empty() {
        let note = known.note_on_default(root, &tables, &plan);
        plan.notes.extend(note);
        if plan.manifest.engines.is_empty() {
            plan.note_on_own_config(root, own_config)?;
        }
    }
    Ok(plan)
}

/// The changes that are undone in one file.
struct Removal<'a> {
    engine: &'a str,
    path: &'a Path,
    changes: Vec<&'a Change>,
    /// The runtimes in the file; `None`: it is not a file of the engine, but our configuration.
    table: Option<&'a RuntimeTable>,
    known: &'a KnownRuntimes,
}

/// Decision about a value of ours.
enum Verdict {
    /// Undo the change as recorded.
    Undo,
    /// Remove the value, for this reason, without restoring the value that it replaced.
    Remove(String),
    /// Keep the value, for this reason.
    Keep(&'static str),
}

impl InstallPlan {
    /// Adds a note if our configuration stays after the last engine is uninstalled: it applies to a
    /// later installation. No note is added to one that says why.
    fn note_on_own_config(&mut self, root: &InstallRoot, file: &Path) -> Result<(), InstallError> {
        let shown = format!("{}: ", file.display());
        let is_changed = self.steps.iter().any(|step| step.path == file);
        let has_note = || self.notes.iter().any(|note| note.starts_with(&shown));
        let Some(config) = ConfigFile::read(root, file, Format::Toml)? else { return Ok(()) };
        let has_keys = config.value().as_object().is_some_and(|top| !top.is_empty());
        if !is_changed && has_keys && !has_note() {
            self.notes.push(format!("{shown}has keys that nrictl did not write: kept"));
        }
        Ok(())
    }

    fn remove(&mut self, root: &InstallRoot, removal: &Removal<'_>) -> Result<(), InstallError> {
        let Removal { engine, path, ref changes, table, known } = *removal;
        let record = self.manifest.files.get(path).cloned();
        let before = root.read(path)?;
        let is_used = self.manifest.is_used_by_others(engine, path);
        let previous_defaults_exist = || changes.iter().all(|c| known.missing(table, c).is_none());
        let after = match &before {
            None => {
                self.notes.push(format!("{}: was removed already", path.display()));
                None
            }
            Some(bytes) => match restored(root, record.as_ref(), bytes) {
                Some(original) if !is_used && previous_defaults_exist() => original,
                _ => self.without_ours(removal, bytes, record.as_ref())?,
            },
        };
        if before != after {
            self.step(path, before.clone(), after.clone());
        }
        if is_used {
            if let Some(record) = self.manifest.files.get_mut(path) {
                record.unbroken = record.matches(before.as_deref());
                record.after = after.as_deref().map(sha256).unwrap_or_default();
            }
        } else if let Some(backup) = self.manifest.files.remove(path).and_then(|r| r.backup)
            && let Some(bytes) = root.read(&backup)?
        {
            self.step(&backup, Content::Bytes(bytes), Content::Nothing);
        }
        Ok(())
    }

    /// Returns the file without our values; `None` if `install` created the file and no other value
    /// is in it.
    fn without_ours(
        &mut self,
        removal: &Removal<'_>,
        bytes: &[u8],
        record: Option<&FileRecord>,
    ) -> Result<Option<Vec<u8>>, InstallError> {
        let Removal { engine, path, ref changes, table, .. } = *removal;
        let by_extension = match path.extension() {
            Some(extension) if extension == "json" => Format::Json,
            _ => Format::Toml,
        };
        let format = record.map(|r| r.format).or(table.map(|t| t.format)).unwrap_or(by_extension);
        let mut file = ConfigFile::parse(path, format, bytes)?;
        let (mut is_changed, mut undone, mut removed_names) = (false, Vec::new(), Vec::new());
        // The policy of plugins comes last, when it is known what else remains in the file.
        let (policies, others): (Vec<&Change>, _) =
            changes.iter().partition(|change| own_values::is_policy(change));
        for change in others.into_iter().chain(policies) {
            if self.manifest.shared(engine, path, &change.path).is_some() {
                continue;
            }
            let Some(current) = file.get(&change.path)? else { continue };
            let mut change = change.clone();
            let value = format!("{}: {}", path.display(), change.path.join("."));
            match removal.verdict(&file, &change, &current)? {
                Verdict::Undo => {}
                Verdict::Remove(reason) => {
                    change.previous = None;
                    self.notes.push(format!("{value} {reason}: removed"));
                }
                Verdict::Keep(reason) => {
                    self.notes.push(format!("{value} {reason}: kept"));
                    continue;
                }
            }
            change.undo(&mut file)?;
            is_changed = true;
            if change.previous.is_none() {
                let is_wrapper = |t: &&RuntimeTable| t.binary(&change.value).is_some();
                let name = table.filter(is_wrapper).and_then(|t| t.runtime_name(&change.path));
                removed_names.extend(name.map(str::to_owned));
                undone.push(change);
            }
        }
        // A table that several changes created is empty only after the last of them is undone.
        for change in &undone {
            file.remove(&change.path, change.made)?;
        }
        // The engine would not start with a default runtime that it does not have.
        if let Some(table) = table
            && let Some(Value::String(name)) = file.get(&table.default)?
            && removed_names.contains(&name)
        {
            file.remove(&table.default, 0)?;
            let note = format!("{}: the default runtime was {name}: removed", path.display());
            self.notes.push(note);
        }
        let is_new = record.is_some_and(|record| record.before.is_none());
        let value = file.value();
        let is_empty = value.as_object().is_none_or(|top| top.keys().all(|key| key == "version"));
        Ok(match is_new && is_empty {
            true => None,
            false if is_changed => Some(file.bytes()),
            false => Some(bytes.to_owned()),
        })
    }
}

impl Removal<'_> {
    /// Decides what to do with a value that `install` wrote; the file now contains `current`.
    fn verdict(
        &self,
        file: &ConfigFile,
        change: &Change,
        current: &Value,
    ) -> Result<Verdict, InstallError> {
        let table = self.table.filter(|table| table.runtime_name(&change.path).is_some());
        if !in_effect(current, &change.value) {
            return Ok(match table.is_some() && calls_same_program(current, &change.value) {
                true => Verdict::Remove(
                    "was changed after the installation, but still called the wrapper".into(),
                ),
                false => Verdict::Keep("was changed after the installation"),
            });
        }
        match table {
            None => {
                // Plugins would get all capabilities: no policy is written to an existing file.
                let is_other = |key: &String| own_values::POLICIES != key;
                if own_values::is_policy(change)
                    && file.value().as_object().is_some_and(|top| top.keys().any(is_other))
                {
                    return Ok(Verdict::Keep("(the policies of plugins) is not alone in the file"));
                }
                if let (Value::Object(current), Value::Object(ours)) = (current, &change.value)
                    && current.len() > ours.len()
                {
                    return Ok(Verdict::Keep("has keys that nrictl did not write"));
                }
            }
            // A built-in runtime of the engine (`runc` of containerd). `install` wrote it to the
            // file, since without that our runtime would replace it.
            Some(table) if table.binary(&change.value).is_none() => {
                let all = file.get(&table.runtimes)?;
                if all.as_ref().and_then(Value::as_object).is_some_and(|all| all.len() > 1) {
                    return Ok(Verdict::Keep("is needed while other runtimes are configured"));
                }
            }
            Some(_) => {}
        }
        Ok(match self.known.missing(self.table, change) {
            Some(missing) => {
                Verdict::Remove(format!("replaced {missing:?}, which no longer exists"))
            }
            None => Verdict::Undo,
        })
    }
}

/// Returns the original file if it is known. `Some(None)`: the file did not exist.
#[expect(clippy::option_option, reason = "an unknown file differs from one that did not exist")]
fn restored(
    root: &InstallRoot,
    record: Option<&FileRecord>,
    current: &[u8],
) -> Option<Option<Vec<u8>>> {
    let record = record.filter(|record| record.matches(Some(current)))?;
    let Some(before) = &record.before else { return Some(None) };
    let backup = root.read(record.backup.as_ref()?).ok()??;
    (sha256(&backup) == *before).then_some(Some(backup))
}

/// Whether a changed runtime still calls the program that we configured.
fn calls_same_program(current: &Value, ours: &Value) -> bool {
    let mut texts = Vec::new();
    collect_strings(current, &mut texts);
    let mut programs = Vec::new();
    collect_strings(ours, &mut programs);
    programs.iter().any(|program| program.starts_with('/') && texts.contains(program))
}

/// Adds all texts in a value to `found`.
fn collect_strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, found)),
        Value::Object(map) => map.values().for_each(|value| collect_strings(value, found)),
        _ => {}
    }
}

/// Removes the manifest's directories that are empty.
pub(crate) fn remove_directories(root: &InstallRoot, directories: &BTreeSet<PathBuf>) {
    for dir in directories.iter().rev() {
        // A directory that is not empty is in use by others.
        let _ = root.real(dir).and_then(std::fs::remove_dir);
    }
}

//! Takes back what `install` did, and nothing else.
//!
//! A file that nobody else has changed since becomes the file of before, byte by byte. Where
//! somebody has, only our values go.

use super::{
    defaults::Names,
    document::{Document, Format, in_effect},
    engine::{Engine, Schema, read},
    error::InstallError,
    manifest::{Change, EngineRecord, FileRecord, Manifest, digest},
    plan::{Content, Plan, Step, undo},
    root::Root,
};
use nri_locate::CONFIG_FILE;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Decides what goes.
///
/// # Errors
/// A file cannot be read, or not be understood any more.
pub(crate) fn plan(
    root: &Root,
    engine: Engine,
    file: Option<&Path>,
    ours: Option<&Path>,
    manifest: &Manifest,
) -> Result<Plan, InstallError> {
    let schemas = engine.schemas(root, file)?;
    let mut plan = Plan::new(manifest);
    let own = ours.unwrap_or(Path::new(CONFIG_FILE));
    let record = match manifest.engines.get(engine.name()) {
        Some(record) => record.clone(),
        None => {
            plan.notes.extend(whose(root, engine, own, &schemas)?);
            recognise(root, engine, own, &schemas, manifest)?
        }
    };
    plan.manifest.engines.remove(engine.name());
    let names = Names::without(root, engine, &schemas, &record)?;
    let mut files: BTreeMap<&Path, Vec<&Change>> = BTreeMap::new();
    for change in &record.changes {
        files.entry(&change.file).or_default().push(change);
    }
    // What an engine needed no more later has no change left, but is still to come back.
    files.extend(
        manifest
            .files
            .keys()
            .filter(|file| !plan.manifest.changes(file))
            .map(|file| (&**file, vec![]))
            .filter(|(file, _)| !record.changes.iter().any(|change| change.file == **file)),
    );
    for (file, changes) in files {
        let schema = schemas.iter().find(|schema| schema.file == *file);
        plan.uninstall(
            root,
            file,
            &Taken { engine: engine.name(), changes: &changes, schema, names: &names },
        )?;
    }
    for link in record.links.iter().filter(|link| !manifest.linked(engine.name(), link)) {
        if let Some(target) = root.link(link).filter(|_| root.is_ours(&link.to_string_lossy())) {
            let (path, before) = (link.clone(), Content::Link(target));
            plan.steps.push(Step { path, before, after: Content::Nothing, like: None });
        }
    }
    if !plan.steps.is_empty() {
        plan.notes.extend(names.left(root, &schemas, &plan));
    }
    Ok(plan)
}

/// What is taken out of one file.
struct Taken<'a> {
    engine: &'a str,
    changes: &'a [&'a Change],
    /// Where the file has its runtimes; none: it is no file of the engine's.
    schema: Option<&'a Schema>,
    /// What a default may be afterwards.
    names: &'a Names,
}

impl Plan {
    fn uninstall(
        &mut self,
        root: &Root,
        file: &Path,
        taken: &Taken<'_>,
    ) -> Result<(), InstallError> {
        let Taken { engine, changes, schema, names } = *taken;
        let record = self.manifest.files.get(file).cloned();
        let there = root.read(file).map_err(|e| InstallError::Read(file.to_owned(), e))?;
        let busy = self.manifest.busy(engine, file);
        let after = match &there {
            None => {
                self.notes.push(format!("{}: is gone", file.display()));
                None
            }
            Some(bytes) => match restored(root, record.as_ref(), bytes).filter(|_| !busy) {
                Some(before) if changes.iter().all(|c| names.missing(schema, c).is_none()) => {
                    before
                }
                _ => self.without(file, bytes, taken, record.as_ref())?,
            },
        };
        let content =
            |bytes: &Option<Vec<u8>>| bytes.clone().map_or(Content::Nothing, Content::Bytes);
        if there != after {
            let (before, after) = (content(&there), content(&after));
            self.steps.push(Step { path: file.to_owned(), before, after, like: None });
        }
        if busy {
            if let Some(record) = self.manifest.files.get_mut(file) {
                record.unbroken = record.knows(there.as_deref());
                record.after = after.as_deref().map(digest).unwrap_or_default();
            }
        } else if let Some(FileRecord { backup: Some(backup), .. }) =
            self.manifest.files.remove(file)
            && let Some(bytes) =
                root.read(&backup).map_err(|e| InstallError::Read(backup.clone(), e))?
        {
            let before = Content::Bytes(bytes);
            self.steps.push(Step { path: backup, before, after: Content::Nothing, like: None });
        }
        Ok(())
    }

    /// The file without what is ours in it; `None` if nothing is left of a file that we made.
    fn without(
        &mut self,
        file: &Path,
        bytes: &[u8],
        taken: &Taken<'_>,
        record: Option<&FileRecord>,
    ) -> Result<Option<Vec<u8>>, InstallError> {
        let Taken { engine, changes, schema, names } = *taken;
        let wrong = |e| InstallError::Document(file.to_owned(), e);
        let format =
            record.map(|r| r.format).or(schema.map(|s| s.format)).unwrap_or(format_of(file));
        let mut document = Document::parse(format, bytes).map_err(wrong)?;
        let mut removed = Vec::new();
        let mut say = |what: &Change, said: &str| {
            self.notes.push(format!("{}: {} {said}", file.display(), what.path.join(".")));
        };
        let (mut changed, mut gone) = (false, Vec::new());
        for change in changes.iter().filter(|change| !self.manifest.shared(engine, change)) {
            let Some(current) = document.get(&change.path).map_err(wrong)? else { continue };
            let name = schema.and_then(|s| runtime_name(s, &change.path));
            let mut change = (*change).clone();
            if in_effect(&current, &change.value) {
                // A table of which only a part is ours keeps the other part.
                if name.is_none()
                    && let (Value::Object(now), Value::Object(mine)) = (&current, &change.value)
                    && now.len() > mine.len()
                {
                    say(&change, "has more than was installed: kept");
                    continue;
                }
                if let Some(schema) =
                    schema.filter(|s| name.is_some() && s.binary(&change.value).is_none())
                    && let Some(Value::Object(all)) =
                        document.get(&schema.runtimes).map_err(wrong)?
                    && all.len() > 1
                {
                    say(&change, "would be missing beside what was added since: kept");
                    continue;
                }
            } else if name.is_some() && mentions(&current, &change.value) {
                say(&change, "was changed since, and still called the wrapper: removed");
                change.previous = None;
            } else {
                say(&change, "was changed since: kept");
                continue;
            }
            if let Some(missing) = names.missing(schema, &change) {
                say(&change, &format!("was {missing:?}, which is gone: removed"));
                change.previous = None;
            }
            undo(&mut document, &change).map_err(wrong)?;
            changed = true;
            if change.previous.is_none() {
                gone.push(change.clone());
            }
            let ours = schema.is_some_and(|schema| schema.binary(&change.value).is_some());
            removed.extend(name.filter(|_| ours && change.previous.is_none()));
        }
        // A table that several of them made is empty only now.
        for change in &gone {
            document.remove(&change.path, change.made).map_err(wrong)?;
        }
        // A default that is not there would keep the engine from starting.
        if let Some(schema) = schema {
            let default = document.get(&schema.default).map_err(wrong)?;
            if let Some(Value::String(name)) =
                default.filter(|d| d.as_str().is_some_and(|d| removed.iter().any(|r| r == d)))
            {
                document.remove(&schema.default, 0).map_err(wrong)?;
                self.notes
                    .push(format!("{}: the default runtime was {name}: removed", file.display()));
            }
        }
        let new_file = record.is_some_and(|record| record.before.is_none());
        let empty =
            document.value().as_object().is_none_or(|top| top.keys().all(|key| key == "version"));
        Ok(if new_file && empty {
            None
        } else if changed || !removed.is_empty() {
            Some(document.bytes())
        } else {
            Some(bytes.to_owned())
        })
    }
}

/// The file of before, where it is known: `Some(None)` if there was none.
#[expect(clippy::option_option, reason = "not known, and known to have been none")]
fn restored(root: &Root, record: Option<&FileRecord>, there: &[u8]) -> Option<Option<Vec<u8>>> {
    let record = record.filter(|record| record.knows(Some(there)))?;
    let Some(before) = &record.before else { return Some(None) };
    let backup = root.read(record.backup.as_ref()?).ok()??;
    (digest(&backup) == *before).then_some(Some(backup))
}

fn runtime_name(schema: &Schema, path: &[String]) -> Option<String> {
    let (last, table) = path.split_last()?;
    (*table == schema.runtimes).then(|| last.clone())
}

/// Whether a changed runtime still has the program that we gave it.
fn mentions(current: &Value, ours: &Value) -> bool {
    fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
            Value::Object(map) => map.values().for_each(|value| strings(value, found)),
            _ => {}
        }
    }
    let (mut now, mut mine) = (Vec::new(), Vec::new());
    strings(current, &mut now);
    strings(ours, &mut mine);
    mine.iter().filter(|text| text.starts_with('/')).any(|text| now.contains(text))
}

fn format_of(file: &Path) -> Format {
    if file.extension().is_some_and(|e| e == "json") { Format::Json } else { Format::Toml }
}

/// What looks like ours where no manifest tells: runtimes that call the wrapper, the default that
/// names one of them, links.
fn recognise(
    root: &Root,
    engine: Engine,
    own: &Path,
    schemas: &[Schema],
    manifest: &Manifest,
) -> Result<EngineRecord, InstallError> {
    let mut record = EngineRecord::default();
    let mut names = Vec::new();
    for schema in schemas {
        let wrong = |e| InstallError::Document(schema.file.clone(), e);
        let Some(document) = schema.read(root)? else { continue };
        let Some(Value::Object(runtimes)) = document.get(&schema.runtimes).map_err(wrong)? else {
            continue;
        };
        for (name, value) in &runtimes {
            let Some(binary) = schema.binary(value).filter(|path| root.is_ours(path)) else {
                continue;
            };
            let path = schema.runtime(name);
            let change = Change {
                file: schema.file.clone(),
                path,
                value: value.clone(),
                previous: None,
                made: 1,
            };
            record.changes.push(change);
            names.push(name.clone());
            let binary = PathBuf::from(binary);
            if root.link(&binary).is_some() && !manifest.linked(engine.name(), &binary) {
                record.links.insert(binary);
            }
        }
    }
    for schema in schemas {
        let Some(document) = schema.read(root)? else { continue };
        let default = document
            .get(&schema.default)
            .map_err(|e| InstallError::Document(schema.file.clone(), e))?;
        if let Some(Value::String(name)) = default
            && names.contains(&name)
        {
            let (file, path) = (schema.file.clone(), schema.default.clone());
            record.changes.push(Change { file, path, value: name.into(), previous: None, made: 0 });
        }
    }
    if let Some(document) = read(root, own, Format::Toml)? {
        for link in &record.links {
            let name = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let path = super::document::path(["runtime", "names", &name, "path"]);
            if let Ok(Some(value)) = document.get(&path) {
                record.changes.push(Change {
                    file: own.to_owned(),
                    path,
                    value,
                    previous: None,
                    made: 3,
                });
            }
        }
    }
    Ok(record)
}

/// Values that may be ours as well as anybody's: without the manifest they stay, but who uninstalls
/// is told.
fn whose(
    root: &Root,
    engine: Engine,
    own: &Path,
    schemas: &[Schema],
) -> Result<Vec<String>, InstallError> {
    let mut notes = Vec::new();
    let mut look = |file: &Path, document: Option<Document>, at: &[String], value: Option<bool>| {
        let there = document.and_then(|document| document.get(at).ok().flatten());
        if let Some(there) =
            there.filter(|there| value.is_none_or(|value| *there == Value::Bool(value)))
        {
            let (file, at) = (file.display(), at.join("."));
            notes.push(format!("{file}: {at} is {there}: kept, as it is not known who wrote it"));
        }
    };
    for schema in schemas {
        let Some((at, off)) = &schema.own_nri else { continue };
        look(&schema.file, schema.read(root)?, at, Some(*off));
    }
    let at = super::document::path(["engines", engine.name()]);
    look(own, read(root, own, Format::Toml)?, &at, None);
    Ok(notes)
}

/// Removes the manifest's directories where they are empty.
pub(crate) fn tidy(root: &Root, directories: &BTreeSet<PathBuf>) {
    for dir in directories.iter().rev() {
        // One that is not empty is somebody else's by now.
        let _ = root.real(dir).and_then(std::fs::remove_dir);
    }
}

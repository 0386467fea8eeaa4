//! From what an engine needs to the files that change, decided before anything is touched.

use super::{
    document::{Document, Format, in_effect},
    error::InstallError,
    manifest::{BACKUPS, Change, FileRecord, MANIFEST, Manifest, digest},
    root::Root,
};
use serde_json::{Map, Value};
use std::path::{Component, Path, PathBuf};

/// Values that one file must have.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) file: PathBuf,
    pub(crate) format: Format,
    /// What a new file begins with.
    pub(crate) header: String,
    pub(crate) settings: Vec<(Vec<String>, Value)>,
    /// Values that go again, where an earlier installation put them.
    pub(crate) unset: Vec<Vec<String>>,
}

impl Target {
    /// A file with nothing to change yet.
    pub(crate) fn new(file: impl Into<PathBuf>, format: Format) -> Self {
        let (settings, unset) = Default::default();
        Self { file: file.into(), format, header: String::new(), settings, unset }
    }

    /// One value more.
    pub(crate) fn set(&mut self, path: Vec<String>, value: impl Into<Value>) {
        self.settings.push((path, value.into()));
    }
}

/// What is at a path, or has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Nothing,
    Bytes(Vec<u8>),
    /// A symbolic link that says this.
    Link(PathBuf),
}

/// One path that changes. Paths are as seen inside the root.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) path: PathBuf,
    pub(crate) before: Content,
    pub(crate) after: Content,
    /// Owner and mode are taken from this file, if it is not the path's own.
    pub(crate) like: Option<PathBuf>,
}

/// All that changes, in order.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) manifest: Manifest,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Nothing yet.
    pub(crate) fn new(manifest: &Manifest) -> Self {
        Self { steps: Vec::new(), manifest: manifest.clone(), notes: Vec::new() }
    }

    /// Puts a link to the wrapper at a path.
    pub(crate) fn link(
        &mut self,
        root: &Root,
        engine: &str,
        link: &Path,
        wrapper: &Path,
    ) -> Result<(), InstallError> {
        let said = if link.parent() == wrapper.parent() {
            wrapper.file_name().map(PathBuf::from)
        } else {
            None
        };
        let target = said.unwrap_or_else(|| wrapper.to_owned());
        match root.link(link) {
            Some(there) if there == target => {}
            Some(_) if root.is_ours(&link.to_string_lossy()) => {}
            None if root.place(link).is_ok_and(|place| place.symlink_metadata().is_err()) => {
                let after = Content::Link(target);
                self.steps.push(Step {
                    path: link.to_owned(),
                    before: Content::Nothing,
                    after,
                    like: None,
                });
                self.manifest
                    .engines
                    .entry(engine.to_owned())
                    .or_default()
                    .links
                    .insert(link.to_owned());
            }
            _ => return Err(InstallError::LinkTaken(link.to_owned())),
        }
        if self.manifest.linked(engine, link) {
            self.manifest
                .engines
                .entry(engine.to_owned())
                .or_default()
                .links
                .insert(link.to_owned());
        }
        Ok(())
    }

    /// Gives a file its values; the bytes that it will have, if any change.
    pub(crate) fn install(
        &mut self,
        root: &Root,
        engine: &str,
        target: &Target,
    ) -> Result<Option<Vec<u8>>, InstallError> {
        let file = &target.file;
        let wrong = |e| InstallError::Document(file.clone(), e);
        let there = root.read(file).map_err(|e| InstallError::Read(file.clone(), e))?;
        let text = there.as_deref().unwrap_or(target.header.as_bytes());
        let mut document = Document::parse(target.format, text).map_err(wrong)?;
        let mut expected = document.value();
        let mut changes = self.recorded(engine);
        let mut changed = false;
        for path in &target.unset {
            let Some(at) = changes.iter().position(|c| c.file == *file && c.path == *path) else {
                continue;
            };
            let change = changes.remove(at);
            if document
                .get(path)
                .map_err(wrong)?
                .is_some_and(|there| in_effect(&there, &change.value))
            {
                undo(&mut document, &change).map_err(wrong)?;
                expected = document.value();
                changed = true;
            }
        }
        for (path, value) in &target.settings {
            let current = document.get(path).map_err(wrong)?;
            let known = changes.iter_mut().find(|c| c.file == *file && c.path == *path);
            if current.as_ref().is_some_and(|there| in_effect(there, value)) {
                // Both engines need it: it goes with the last of them.
                let change = Change { value: value.clone(), ..Change::at(file, path) };
                if known.is_none() && self.manifest.shared(engine, &change) {
                    changes.push(self.manifest.other(engine, &change).unwrap_or(change));
                }
                continue;
            }
            let made = document.set(path, value).map_err(wrong)?;
            put(&mut expected, path, value);
            changed = true;
            match known {
                // An own value of before is not what was there before us.
                Some(known)
                    if current.as_ref().is_some_and(|there| in_effect(there, &known.value)) =>
                {
                    known.value = value.clone();
                    known.made = known.made.max(made);
                }
                // Who deleted ours did not want back what was there before.
                Some(known) if current.is_none() => {
                    let (value, made) = (value.clone(), known.made.max(made));
                    *known = Change { value, previous: None, made, ..known.clone() };
                }
                Some(known) => {
                    *known =
                        Change { value: value.clone(), previous: current, made, ..known.clone() }
                }
                None => {
                    let value = value.clone();
                    changes.push(Change {
                        value,
                        previous: current,
                        made,
                        ..Change::at(file, path)
                    });
                }
            }
        }
        let record = self.manifest.engines.entry(engine.to_owned()).or_default();
        record.changes = changes;
        if record == &Default::default() {
            self.manifest.engines.remove(engine);
        }
        if !changed {
            return Ok(None);
        }
        let bytes = document.bytes();
        let check = Document::parse(target.format, &bytes).map_err(wrong)?;
        if check.value() != expected {
            let path = target.settings.first().map(|(path, _)| path.join(".")).unwrap_or_default();
            return Err(wrong(super::document::DocumentError::Layout { path }));
        }
        self.write(root, target.format, file, there, &bytes);
        Ok(Some(bytes))
    }

    fn write(
        &mut self,
        root: &Root,
        format: Format,
        file: &Path,
        there: Option<Vec<u8>>,
        bytes: &[u8],
    ) {
        let after = digest(bytes);
        match self.manifest.files.get_mut(file) {
            Some(record) => {
                record.unbroken = record.knows(there.as_deref());
                record.after = after;
            }
            None => {
                let backup = there.as_ref().map(|_| backup_name(root, file));
                if let (Some(backup), Some(there)) = (&backup, &there) {
                    let (path, after) = (backup.clone(), Content::Bytes(there.clone()));
                    self.steps.push(Step {
                        path,
                        before: Content::Nothing,
                        after,
                        like: Some(file.to_owned()),
                    });
                }
                let before = there.as_deref().map(digest);
                let record = FileRecord { format, before, after, backup, unbroken: true };
                self.manifest.files.insert(file.to_owned(), record);
            }
        }
        let before = there.map_or(Content::Nothing, Content::Bytes);
        let after = Content::Bytes(bytes.to_owned());
        self.steps.push(Step { path: file.to_owned(), before, after, like: None });
    }

    /// The manifest is written before what it tells about, and after what it tells no more:
    /// whatever happens in between, what is ours is known.
    pub(crate) fn finish(&mut self, root: &Root, installs: bool) -> Result<(), InstallError> {
        let made: Vec<PathBuf> =
            self.steps.iter().filter(|_| installs).map(|step| step.path.clone()).collect();
        let path = PathBuf::from(MANIFEST);
        let before = root.read(&path).map_err(|e| InstallError::Read(path.clone(), e))?;
        if self.steps.is_empty() && before == self.manifest.bytes() {
            return Ok(());
        }
        let inside = made.iter().chain([&path]);
        for dir in inside.flat_map(|file| file.ancestors().skip(1)) {
            if !root.exists(dir) {
                self.manifest.directories.insert(dir.to_owned());
            }
        }
        let after = self.manifest.bytes();
        if before == after {
            return Ok(());
        }
        let content = |bytes: Option<Vec<u8>>| bytes.map_or(Content::Nothing, Content::Bytes);
        let step = Step { path, before: content(before), after: content(after), like: None };
        self.steps.insert(if installs { 0 } else { self.steps.len() }, step);
        Ok(())
    }

    fn recorded(&self, engine: &str) -> Vec<Change> {
        self.manifest.engines.get(engine).map(|record| record.changes.clone()).unwrap_or_default()
    }
}

impl Change {
    fn at(file: &Path, path: &[String]) -> Self {
        Self {
            file: file.to_owned(),
            path: path.to_owned(),
            value: Value::Null,
            previous: None,
            made: 0,
        }
    }
}

impl Manifest {
    fn other(&self, engine: &str, change: &Change) -> Option<Change> {
        let records =
            self.engines.iter().filter(|(name, _)| *name != engine).flat_map(|(_, r)| &r.changes);
        records.into_iter().find(|c| c.file == change.file && c.path == change.path).cloned()
    }
}

/// Takes a value of ours back.
pub(crate) fn undo(
    document: &mut Document,
    change: &Change,
) -> Result<(), super::document::DocumentError> {
    match &change.previous {
        Some(previous) => document.set(&change.path, previous).map(drop),
        None => document.remove(&change.path, change.made),
    }
}

/// The file's path below our directory, or with a number if there is such a file: it may be all
/// that is left of somebody's configuration.
///
/// Never beside the file: engines read every file of some directories, whatever its name is
/// (CRI-O's drop-ins, what a pattern of containerd's imports matches).
fn backup_name(root: &Root, file: &Path) -> PathBuf {
    let inside = file.components().filter(|part| matches!(part, Component::Normal(_)));
    let own = Path::new(BACKUPS).join(inside.collect::<PathBuf>());
    let name = |number: usize| {
        let mut name = own.as_os_str().to_owned();
        name.push(if number == 0 { String::new() } else { format!(".{number}") });
        PathBuf::from(name)
    };
    (0..).map(name).find(|path| !root.exists(path)).unwrap_or_else(|| name(0))
}

/// What a document is expected to be with a value.
fn put(document: &mut Value, path: &[String], value: &Value) {
    let mut at = document;
    for name in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(name.clone()).or_insert(Value::Null);
    }
    match (&mut *at, value) {
        (Value::Object(_), Value::Object(members)) => {
            for (name, value) in members {
                put(at, std::slice::from_ref(name), value);
            }
        }
        _ => *at = value.clone(),
    }
}

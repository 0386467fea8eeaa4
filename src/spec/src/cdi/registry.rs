//! [`CdiRegistry`]: the devices of all specification files.

use super::edits::CdiEdits;
use super::edits::{self, known};
use super::error::{CdiError, InvalidCdiSpec};
use super::name::CdiDeviceName;
use super::name::{check_device, check_kind};
use super::version::{self, VersionedFeatures};
use crate::context::CdiResolver;
use crate::json::read::{Read, field_or_default, list, map, text};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The content of a specification file: JSON values, also if the file is YAML.
#[derive(Debug, Clone)]
pub struct CdiSpecFile {
    /// Path, for messages.
    pub path: String,
    /// Position of the file's directory in the list of directories. `/var/run/cdi` comes after
    /// `/etc/cdi` and overrides it.
    pub priority: usize,
    /// The parsed content.
    pub content: Value,
}

/// Devices by name. An unusable file is skipped and listed in [`errors`](Self::errors).
#[derive(Debug, Clone, Default)]
pub struct CdiRegistry {
    specs: Vec<Spec>,
    devices: HashMap<String, Entry>,
    errors: Vec<CdiError>,
}

#[derive(Debug, Clone)]
struct Spec {
    path: String,
    priority: usize,
    edits: CdiEdits,
}

#[derive(Debug, Clone)]
struct Entry {
    spec: usize,
    edits: CdiEdits,
    /// Another file of the same priority that defines the device, which makes the device ambiguous.
    conflict: Option<usize>,
}

impl CdiRegistry {
    /// Parses the files.
    pub fn new(files: impl IntoIterator<Item = CdiSpecFile>) -> Self {
        let mut registry = Self::default();
        for file in files {
            let path = file.path.clone();
            if let Err(source) = registry.add(file) {
                registry.errors.push(CdiError::Spec { path, source });
            }
        }
        registry
    }

    /// Errors of the files that were skipped.
    pub fn errors(&self) -> &[CdiError] {
        &self.errors
    }

    /// Names of all devices, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.devices.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    fn add(&mut self, file: CdiSpecFile) -> Result<(), InvalidCdiSpec> {
        let parsed = parse(&file.content)?;
        let (spec, priority) = (self.specs.len(), file.priority);
        for (name, edits) in parsed.devices {
            let name = format!("{}={name}", parsed.kind);
            let new = Entry { spec, edits, conflict: None };
            match self.devices.get_mut(&name) {
                None => drop(self.devices.insert(name, new)),
                Some(old) => match self.specs[old.spec].priority.cmp(&priority) {
                    std::cmp::Ordering::Less => *old = new,
                    std::cmp::Ordering::Equal => old.conflict = Some(spec),
                    std::cmp::Ordering::Greater => {}
                },
            }
        }
        self.specs.push(Spec { path: file.path, priority, edits: parsed.edits });
        Ok(())
    }
}

impl CdiResolver for CdiRegistry {
    /// The edits that a specification has for all its devices are returned once, before the edits
    /// of the first of these devices.
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match self.devices.get(&CdiDeviceName::parse(name)?.to_string()) {
                None => missing.push((*name).to_owned()),
                Some(Entry { spec, conflict: Some(other), .. }) => {
                    let files = [self.specs[*spec].path.clone(), self.specs[*other].path.clone()];
                    return Err(CdiError::Conflict { name: (*name).to_owned(), files });
                }
                Some(entry) => found.push(entry),
            }
        }
        if !missing.is_empty() {
            return Err(CdiError::Unresolvable { names: missing });
        }
        let (mut edits, mut specs) = (Vec::new(), HashSet::new());
        for entry in found {
            if specs.insert(entry.spec) {
                edits.push(self.specs[entry.spec].edits.clone());
            }
            edits.push(entry.edits.clone());
        }
        Ok(edits)
    }
}

struct ParsedSpec {
    version: String,
    kind: String,
    has_annotations: bool,
    devices: Vec<(String, CdiEdits)>,
    edits: CdiEdits,
}

fn parse(spec: &Value) -> Result<ParsedSpec, InvalidCdiSpec> {
    let (parsed, has_annotated_devices) = read(spec)?;
    let invalid =
        |field, value: &str, why| InvalidCdiSpec::Invalid { field, value: value.to_owned(), why };
    check_kind(&parsed.kind).map_err(|why| invalid("kind", &parsed.kind, why))?;
    parsed.edits.check()?;
    if parsed.devices.is_empty() {
        return Err(invalid("devices", "", "is empty"));
    }
    let mut names = HashSet::new();
    for (name, edits) in &parsed.devices {
        check_device(name).map_err(|why| invalid("name", name, why))?;
        edits.check()?;
        if edits.is_empty() {
            return Err(invalid("name", name, "has no edits"));
        }
        if !names.insert(name) {
            return Err(invalid("name", name, "is not unique"));
        }
    }
    let features = VersionedFeatures {
        edits: parsed.devices.iter().map(|(_, e)| e).chain([&parsed.edits]).collect(),
        names: parsed.devices.iter().map(|(n, _)| n.as_str()).collect(),
        has_annotations: parsed.has_annotations || has_annotated_devices,
        kind: &parsed.kind,
    };
    version::check(&parsed.version, &features)?;
    Ok(parsed)
}

/// Reads a specification. The second value tells whether any of its devices has annotations.
fn read(spec: &Value) -> Read<(ParsedSpec, bool)> {
    let fields = known(spec, &["cdiVersion", "kind", "annotations", "devices", "containerEdits"])?;
    let devices = field_or_default(fields, "devices", list(read_device))?;
    let has_annotated_devices = devices.iter().any(|(_, annotated, _)| *annotated);
    let parsed = ParsedSpec {
        version: field_or_default(fields, "cdiVersion", text)?,
        kind: field_or_default(fields, "kind", text)?,
        has_annotations: !field_or_default(fields, "annotations", map(text))?.is_empty(),
        devices: devices.into_iter().map(|(name, _, edits)| (name, edits)).collect(),
        edits: field_or_default(fields, "containerEdits", edits::read)?,
    };
    Ok((parsed, has_annotated_devices))
}

/// Reads the name of a device, whether it has annotations, and its edits.
fn read_device(value: &Value) -> Read<(String, bool, CdiEdits)> {
    let fields = known(value, &["name", "annotations", "containerEdits"])?;
    Ok((
        field_or_default(fields, "name", text)?,
        !field_or_default(fields, "annotations", map(text))?.is_empty(),
        field_or_default(fields, "containerEdits", edits::read)?,
    ))
}

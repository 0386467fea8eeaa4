//! Resolves names of block I/O and RDT classes to OCI resources of this host.
//!
//! The files are read only when a plugin sets a class, so that a changed file applies from the next
//! creation on, and an unusable file affects only containers with classes. This module does not
//! create control groups of resctrl. Start from [`Resolved::of`].

mod devices;

pub use devices::{Disks, InvalidPattern};

use crate::host::{
    file_access::{FileSystem, FileSystemHangs},
    structured::{self, FileError},
};
use nri_api::{
    field_name,
    proto::{Field, FieldOwners, LinuxResources, OptionalString},
    set_by,
};
use nri_spec::{BlockIoClasses, RdtClasses};
use protobuf::Enum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Mount point of resctrl, the file system of RDT control groups.
pub const RESCTRL: &str = "/sys/fs/resctrl";

/// Directories in resctrl that are not control groups.
const RESERVED_DIRS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// A class that cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{} {name:?}{}{problem}", field_name(*field), set_by(plugin.as_deref()))]
pub struct ClassError {
    /// The field that holds the class.
    field: Field,
    /// Name of the class.
    name: String,
    /// The plugin that set the class, if known.
    plugin: Option<String>,
    /// Why the class cannot be resolved.
    #[source]
    problem: ClassProblem,
}

/// Reason why a class cannot be resolved; the text follows the name of the class.
#[derive(Debug, thiserror::Error)]
pub enum ClassProblem {
    /// No file is configured that defines classes.
    #[error(": no classes are configured ([{0}] config_file)")]
    NotConfigured(&'static str),
    /// The files of the classes cannot be read in time.
    #[error(": {files}: {0}", files = FileSystem::Classes)]
    Hangs(#[source] FileSystemHangs),
    /// The class is not defined.
    #[error(
        " is not defined: {} has {}",
        file.display(),
        if known.is_empty() { "none" } else { known }
    )]
    Unknown {
        /// File or resctrl directory that was searched.
        file: PathBuf,
        /// The defined classes, separated by commas.
        known: String,
    },
    /// The configured file cannot be read.
    #[error(": {0}")]
    File(#[source] FileError),
    /// The file is not a valid configuration of classes.
    #[error(": {}: {}", file.display(), crate::host::error_chain::chain(&**source))]
    Content {
        /// Path of the file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClassProblem {
    fn content(file: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Content { file: file.to_owned(), source: Box::new(source) }
    }

    fn unknown<'n>(file: &Path, known: impl Iterator<Item = &'n str>) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        Self::Unknown { file: file.to_owned(), known }
    }
}

impl ClassError {
    /// Adds the plugin that set the class.
    pub fn with_owner(self, owners: &FieldOwners) -> Self {
        let plugin = owners.simple.get(&self.field.value()).cloned();
        Self { plugin, ..self }
    }

    /// Returns the error for the class of these resources, of which the file cannot be read in
    /// time.
    pub fn hangs(resources: &LinuxResources, hangs: FileSystemHangs) -> Self {
        let (field, class) = match resources.blockio_class.as_ref() {
            Some(class) => (Field::BlockioClass, Some(class)),
            None => (Field::RdtClass, resources.rdt_class.as_ref()),
        };
        let name = class.map(|class| class.value.clone()).unwrap_or_default();
        Self { field, name, plugin: None, problem: ClassProblem::Hangs(hangs) }
    }

    /// Returns the plugin that set the class, if known, and the name of the field.
    pub fn cause(&self) -> (Option<&str>, &'static str) {
        (self.plugin.as_deref(), field_name(self.field))
    }
}

/// Sources of class definitions.
#[derive(Debug, Clone)]
pub struct Sources<'a> {
    /// File of the block I/O classes, if one is configured.
    pub blockio: Option<&'a Path>,
    /// File of the RDT classes, if one is configured.
    pub rdt: Option<&'a Path>,
    /// Mount point of resctrl. If no file is configured, resctrl's control groups are the RDT
    /// classes.
    pub resctrl: &'a Path,
}

/// The classes of an adjustment, resolved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// `linux.resources.blockIO`, if a block I/O class was set.
    pub blockio: Option<Value>,
    /// `linux.intelRdt`, if an RDT class was set.
    pub rdt: Option<Value>,
}

impl Resolved {
    /// Resolves the classes of resources. The empty name, which removes a container from its class,
    /// resolves to nothing.
    ///
    /// # Errors
    /// A class is not defined, or a file cannot be used.
    pub fn of(resources: &LinuxResources, sources: &Sources<'_>) -> Result<Self, ClassError> {
        type Resolve = fn(&str, &Sources<'_>) -> Result<Value, ClassProblem>;
        let resolve = |field, class: Option<&OptionalString>, resolve: Resolve| {
            let name = class.map(|class| &class.value).filter(|name| !name.is_empty());
            let error = |problem, name: &String| ClassError {
                field,
                name: name.clone(),
                plugin: None,
                problem,
            };
            name.map(|name| resolve(name, sources).map_err(|p| error(p, name))).transpose()
        };
        let (blockio, rdt) = (resources.blockio_class.as_ref(), resources.rdt_class.as_ref());
        Ok(Self {
            blockio: resolve(Field::BlockioClass, blockio, resolve_blockio)?,
            rdt: resolve(Field::RdtClass, rdt, resolve_rdt)?,
        })
    }
}

/// Reads a file of block I/O classes and resolves each class; returns the names of the classes.
///
/// # Errors
/// The file cannot be used, or a class of it cannot be resolved.
pub fn check_blockio(file: &Path) -> Result<Vec<String>, ClassProblem> {
    let classes = read(file, BlockIoClasses::parse)?;
    let check = |name: &str| blockio_class(&classes, name, file).map(|_| name.to_owned());
    classes.names().map(check).collect()
}

/// Reads a file of RDT classes; returns the names of the classes.
///
/// # Errors
/// The file cannot be used.
pub fn check_rdt(file: &Path) -> Result<Vec<String>, ClassProblem> {
    Ok(read(file, RdtClasses::parse)?.names().map(str::to_owned).collect())
}

/// Reads a file of classes.
fn read<T, E: std::error::Error + Send + Sync + 'static>(
    file: &Path,
    parse: impl Fn(&Value) -> Result<T, E>,
) -> Result<T, ClassProblem> {
    let config = structured::read(file).map_err(ClassProblem::File)?;
    parse(&config).map_err(|error| ClassProblem::content(file, error))
}

fn resolve_blockio(name: &str, sources: &Sources<'_>) -> Result<Value, ClassProblem> {
    let file = sources.blockio.ok_or(ClassProblem::NotConfigured("blockio"))?;
    blockio_class(&read(file, BlockIoClasses::parse)?, name, file)
}

fn blockio_class(classes: &BlockIoClasses, name: &str, file: &Path) -> Result<Value, ClassProblem> {
    let disks = Disks::default();
    let resolved = classes.resolve(name, &disks);
    if let Some(invalid) = disks.into_error() {
        return Err(ClassProblem::content(file, invalid));
    }
    resolved.ok_or_else(|| ClassProblem::unknown(file, classes.names()))
}

fn resolve_rdt(name: &str, sources: &Sources<'_>) -> Result<Value, ClassProblem> {
    let (file, classes) = if let Some(file) = sources.rdt {
        (file, read(file, RdtClasses::parse)?)
    } else {
        let file = sources.resctrl;
        let groups = control_groups(file).ok_or(ClassProblem::NotConfigured("rdt"))?;
        (file, RdtClasses::parse(&groups).map_err(|error| ClassProblem::content(file, error))?)
    };
    classes.resolve(name).ok_or_else(|| ClassProblem::unknown(file, classes.names()))
}

/// Returns the existing resctrl groups in the form of a class configuration; `None` if resctrl is
/// not mounted.
fn control_groups(resctrl: &Path) -> Option<Value> {
    if !resctrl.join("schemata").exists() {
        return None;
    }
    let mut classes = serde_json::Map::new();
    for entry in std::fs::read_dir(resctrl).ok()?.flatten() {
        let name = entry.file_name().into_string().ok();
        if let Some(name) =
            name.filter(|n| !RESERVED_DIRS.contains(&n.as_str()) && entry.path().is_dir())
        {
            classes.insert(name, json!({}));
        }
    }
    Some(json!({ "partitions": { "": { "classes": classes } } }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const BLOCKIO: &str = "Classes:\n  slow:\n  - Weight: 80\n  bad:\n  - Devices: ['/dev/[']\n    \
                           Weight: 50\n  none: []\n";
    const RDT: &str =
        "options: {l3: {optional: true}}\npartitions:\n  shared:\n    classes:\n      gold: {}\n";

    fn check(blockio: Option<&str>, rdt: Option<&str>, expected: Result<Value, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let resctrl = dir.path().join("resctrl");
        for group in ["info", "mon_groups", "silver"] {
            fs::create_dir_all(resctrl.join(group)).unwrap();
        }
        fs::write(resctrl.join("schemata"), "").unwrap();
        let (blockio_file, rdt_file) = (file("b.yaml", BLOCKIO), file("r.yaml", RDT));
        // A configured file has precedence over resctrl. In this test, a class `/name` is looked up
        // in resctrl, without a configured file.
        let by_file = rdt.is_none_or(|name| !name.starts_with('/'));
        let sources = Sources {
            blockio: Some(&blockio_file),
            rdt: by_file.then_some(&*rdt_file),
            resctrl: &resctrl,
        };
        let mut resources = LinuxResources::new();
        resources.blockio_class = nri_api::opt(blockio.map(str::to_owned));
        resources.rdt_class = nri_api::opt(rdt.map(|n| n.trim_start_matches('/').to_owned()));
        let resolved = Resolved::of(&resources, &sources)
            .map(|r| json!([r.blockio, r.rdt]))
            .map_err(|e| e.to_string().replace(&format!("{}/", dir.path().display()), ""));
        assert_eq!(resolved, expected.map_err(str::to_owned));
    }

    #[test]
    fn class_names_are_resolved() {
        check(None, None, Ok(json!([null, null])));
        check(Some(""), Some(""), Ok(json!([null, null])));
        check(Some("slow"), None, Ok(json!([{"weight": 80}, null])));
        check(Some("none"), Some("gold"), Ok(json!([{}, {"closID": "gold"}])));
        check(None, Some("system/default"), Ok(json!([null, {"closID": "/"}])));
        check(None, Some("/silver"), Ok(json!([null, {"closID": "silver"}])));
    }

    #[test]
    fn the_error_about_an_unknown_class_lists_the_defined_classes() {
        check(
            Some("fast"),
            None,
            Err(r#"blockio_class "fast" is not defined: b.yaml has bad, none, slow"#),
        );
        check(None, Some("silver"), Err(r#"rdt_class "silver" is not defined: r.yaml has gold"#));
        check(None, Some("/info"), Err(r#"rdt_class "info" is not defined: resctrl has silver"#));
        let resources = LinuxResources {
            blockio_class: nri_api::opt(Some("slow".to_owned())),
            ..LinuxResources::default()
        };
        let sources = Sources { blockio: None, rdt: None, resctrl: Path::new("/nowhere") };
        let error = Resolved::of(&resources, &sources).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"blockio_class "slow": no classes are configured ([blockio] config_file)"#
        );
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::BlockioClass.value(), "10-a".to_owned());
        assert_eq!(
            error.with_owner(&owners).to_string(),
            "blockio_class \"slow\" (set by plugin \"10-a\"): no classes are configured \
             ([blockio] config_file)"
        );
    }

    #[test]
    fn the_error_about_an_unusable_class_file_names_the_file() {
        check(
            Some("bad"),
            None,
            Err("blockio_class \"bad\": b.yaml: device pattern \"/dev/[\" is not valid: \
                 invalid range pattern"),
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = Some(path.as_path());
        let sources = Sources { blockio: file, rdt: file, resctrl: Path::new(RESCTRL) };
        let error_text = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            resolve_blockio("a", &sources)
                .unwrap_err()
                .to_string()
                .replace(&path.display().to_string(), "FILE")
        };
        assert_eq!(error_text(None), ": FILE: No such file or directory (os error 2)");
        assert_eq!(
            error_text(Some("Classes: {a: {}}")),
            ": FILE: block I/O configuration does not have the expected form: \
             Classes.a is an object, not an array"
        );
        assert!(resolve_rdt("a", &sources).unwrap_err().to_string().starts_with(" is not"));
    }
}

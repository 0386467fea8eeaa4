//! containerd: a runtime handler of the CRI plugin.
//!
//! Before 2.0 a file that is imported replaces the whole table of a plugin, so that a drop-in would
//! take everything else from the CRI plugin (`containerd v1.7:
//! cmd/containerd/server/config/config.go`, `mergeConfig`); since 2.0 tables are merged. Which
//! containerd reads a file of version 2 cannot be seen in it, so there the last file that has the
//! plugin's table is edited. Version 3 exists since 2.0: there a drop-in is made where one is
//! imported.
//!
//! The version of the last file that is read counts for all (seen with 2.1.9): behind a last file
//! of version 3 nothing that files of version 2 say of the CRI plugin counts any more. So a
//! drop-in, which is the last one, has the version of the last one before it.

use super::{
    document::{Document, Format, path},
    engine::{Asked, Needs, OwnNri, Schema, read},
    error::InstallError,
    own::Nri,
    plan::Target,
    root::Root,
    version::Version,
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

const FILE: &str = "/etc/containerd/config.toml";

/// Sorted behind others, such as `99-nvidia.toml`: the last one decides.
const DROP_IN: &str = "zz-nri-container-runtime.toml";

/// The CRI plugin in files of version 1, 2, and later. In version 1 a plugin has its short name,
/// and no other.
const CRI: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];
const NRI: &str = "io.containerd.nri.v1.nri";

/// What makes shims call runc, or what stands in for it.
const RUNC_SHIM: &str = "io.containerd.runc.v2";

/// Of the handler that ours is like: not these, which belong to its runtime, or which newer
/// versions refuse.
const NOT_COPIED: &[&str] = &[
    "runtime_type",
    "runtime_engine",
    "runtime_root",
    "pod_annotations",
    "container_annotations",
    "options",
];

/// A file of containerd's.
struct Loaded {
    file: PathBuf,
    document: Document,
    version: i64,
}

impl Loaded {
    fn plugin(&self) -> &'static str {
        match self.version {
            ..2 => CRI[0],
            2 => CRI[1],
            _ => CRI[2],
        }
    }

    /// Where containerd's own NRI is switched off.
    fn own_nri(&self) -> Vec<String> {
        path(["plugins", if self.version < 2 { "nri" } else { NRI }, "disable"])
    }

    fn schema(&self) -> Schema {
        let inside = |names: &[&str]| {
            ["plugins", self.plugin(), "containerd"]
                .iter()
                .chain(names)
                .map(|name| (*name).to_owned())
                .collect()
        };
        Schema {
            file: self.file.clone(),
            format: Format::Toml,
            runtimes: inside(&["runtimes"]),
            binary: &["options", "BinaryName"],
            default: inside(&["default_runtime_name"]),
            own_nri: Some((self.own_nri(), true)),
        }
    }

    fn get(&self, path: &[String]) -> Option<Value> {
        self.document.get(path).ok().flatten()
    }

    fn list(&self, name: &str) -> Vec<String> {
        let list = self.get(&path([name]));
        let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn has_handlers(&self) -> bool {
        self.get(&self.schema().runtimes).is_some()
    }

    /// Whether it has anything of a plugin.
    fn has(&self, plugin: &str) -> bool {
        self.get(&path(["plugins", plugin])).is_some()
    }
}

/// The file and all that it imports, in the order in which containerd reads them.
fn load(root: &Root, file: &Path) -> Result<Vec<Loaded>, InstallError> {
    let mut pending = VecDeque::from([file.to_owned()]);
    let mut seen = BTreeSet::new();
    let mut loaded = Vec::new();
    while let Some(file) = pending.pop_front() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let Some(document) = read(root, &file, Format::Toml)? else { continue };
        let version =
            document.get(&path(["version"])).ok().flatten().and_then(|v| v.as_i64()).unwrap_or(1);
        let one = Loaded { file: file.clone(), document, version };
        for pattern in one.list("imports") {
            pending.extend(expand(root, &file, &pattern)?);
        }
        loaded.push(one);
    }
    Ok(loaded)
}

fn absolute(importer: &Path, pattern: &str) -> PathBuf {
    importer.parent().unwrap_or(Path::new("/")).join(pattern)
}

fn expand(root: &Root, importer: &Path, pattern: &str) -> Result<Vec<PathBuf>, InstallError> {
    let full = absolute(importer, pattern);
    if !pattern.contains('*') {
        return Ok(vec![full]);
    }
    let wrong = || InstallError::Import { file: importer.to_owned(), pattern: pattern.to_owned() };
    let (dir, name) = (
        full.parent().ok_or_else(wrong)?,
        full.file_name().and_then(|n| n.to_str()).ok_or_else(wrong)?,
    );
    let name = glob::Pattern::new(name).map_err(|_| wrong())?;
    if dir.to_string_lossy().contains(['*', '?', '[']) {
        return Err(wrong());
    }
    Ok(root.list(dir).into_iter().filter(|n| name.matches(n)).map(|n| dir.join(n)).collect())
}

/// The files in which there may be runtimes.
pub(crate) fn schemas(root: &Root, file: Option<&Path>) -> Result<Vec<Schema>, InstallError> {
    Ok(load(root, file.unwrap_or(Path::new(FILE)))?.iter().map(Loaded::schema).collect())
}

/// What containerd needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let file = asked.file.unwrap_or(Path::new(FILE));
    let loaded = load(asked.root, file)?;
    let mut needs = Needs { nri: own_nri(&loaded, asked.version), ..Needs::default() };
    // Seen with 2.1.9: what a file of version 1 says of the CRI plugin is lost on the way to
    // version 3.
    if let Some(main) = loaded.first().filter(|main| main.version < 2) {
        match asked.version {
            Some(version) if version.major >= 2 => {
                return Err(InstallError::OldVersion(main.file.clone()));
            }
            Some(_) => {}
            None => {
                let file = main.file.display();
                needs.notes.push(format!(
                    "{file} is of version 1: containerd 2 takes no CRI settings from such a file"
                ));
            }
        }
    }
    let (mut target, schema, version) = target(asked, file, &loaded);
    let mut others = Vec::new();
    needs.notes.extend(aged(&loaded, version));
    let like = handler(&loaded);
    for runtime in &asked.runtimes {
        let mut value = like.clone();
        value["options"]["BinaryName"] = json!(runtime.path());
        target.set(schema.runtime(&runtime.name), value);
    }
    needs.notes.extend(woken(asked, &loaded));
    let relative =
        |l: &&Loaded| l.list("imports").iter().any(|p| p.contains('*') && !p.starts_with('/'));
    if let Some(one) =
        loaded.iter().find(|l| l.version < 3).and_then(|_| loaded.iter().find(relative))
    {
        let file = one.file.display();
        needs.notes.push(format!(
            "{file}: older containerds look for a relative pattern of imports in their working directory"
        ));
    }
    if loses_runc(asked, &loaded) {
        target.set(schema.runtime("runc"), json!({"runtime_type": RUNC_SHIM}));
    }
    if let Some(first) = asked.runtimes.first().filter(|_| asked.default) {
        deprecated_default(&loaded)?;
        match loaded
            .iter()
            .rev()
            .filter(|l| l.version > version)
            .find(|l| l.get(&l.schema().default).is_some())
        {
            // It would win over that of an older version.
            Some(one) => {
                let mut newer = Target::new(&one.file, Format::Toml);
                newer.set(one.schema().default, first.name.as_str());
                others.push(newer);
            }
            None => target.set(schema.default.clone(), first.name.as_str()),
        }
    }
    // Where the table is already: an older containerd would take ours for all of it.
    let place = loaded.iter().rev().find(|l| l.has(&l.own_nri()[1]) && loaded[0].version < 3);
    let home = loaded.iter().find(|l| l.file == target.file);
    let own = place.or(home).map_or_else(|| path(["plugins", NRI, "disable"]), Loaded::own_nri);
    let place = place.map(|l| l.file.clone()).filter(|file| *file != target.file);
    let mut other = place.map(|file| Target::new(file, Format::Toml));
    let nri = other.as_mut().unwrap_or(&mut target);
    match asked.nri {
        Some(Nri::Ours) if matches!(needs.nri, OwnNri::On | OwnNri::Unknown) => nri.set(own, true),
        Some(Nri::Auto | Nri::Engine) => nri.unset.push(own),
        _ => {}
    }
    let name = asked.runtimes.first().map_or("", |runtime| &runtime.name);
    let disabled = |l: &&Loaded| l.list("disabled_plugins").iter().any(|p| CRI.contains(&&**p));
    if let Some(one) = loaded.iter().find(disabled) {
        let file = one.file.display();
        needs
            .notes
            .push(format!("{file} disables the CRI plugin: handlers have no effect while it does"));
    }
    needs.usage.push(format!("Kubernetes: a RuntimeClass with handler: {name}"));
    let binary = asked.runtimes.first().map(super::wrapper::Runtime::path).unwrap_or_default();
    needs.usage.push(format!("ctr run --rm --runc-binary {binary} IMAGE ID"));
    needs.targets = std::iter::once(target).chain(others).chain(other).collect();
    Ok(needs)
}

/// The file to write to, and its version.
fn target(asked: &Asked<'_>, file: &Path, loaded: &[Loaded]) -> (Target, Schema, i64) {
    let made = "# Made by `nrictl install containerd`; `nrictl uninstall containerd` removes it.\n";
    let new_file = |file: &Path, version: i64| {
        let header = format!("{made}version = {version}\n");
        let (file, document) = (file.to_owned(), Document::empty());
        let schema = Loaded { file: file.clone(), document, version }.schema();
        (Target { header, ..Target::new(file, Format::Toml) }, schema, version)
    };
    let Some(main) = loaded.first() else {
        // Version 2 is understood by every containerd since 1.3, by newer ones with a warning.
        return new_file(file, if asked.version.is_some_and(|v| v.major >= 2) { 3 } else { 2 });
    };
    let edited = |l: &Loaded| (Target::new(&l.file, Format::Toml), l.schema(), l.version);
    if main.version >= 3 {
        let old = counting(loaded) < 3;
        // One handler of version 3 and those of version 2 are lost: ours goes to its like.
        let newer = loaded.iter().rev().find(|l| l.version >= 3 && !is_ours(l) && l.has_handlers());
        if let Some(newer) = newer.filter(|_| old) {
            return edited(newer);
        }
        let dirs = main.list("imports").into_iter().filter_map(|pattern| {
            let full = absolute(&main.file, &pattern);
            let name = full.file_name()?.to_str()?;
            let dir = full.parent().filter(|dir| !dir.to_string_lossy().contains('*'))?;
            glob::Pattern::new(name)
                .is_ok_and(|p| name.contains('*') && p.matches(DROP_IN))
                .then(|| dir.join(DROP_IN))
        });
        if let Some(drop_in) = dirs.into_iter().next() {
            let there = loaded.iter().find(|l| l.file == drop_in).map(|l| l.version);
            return new_file(&drop_in, there.unwrap_or(if old { 2 } else { main.version }));
        }
        let last = loaded.iter().rev().find(|l| old && l.version == 2 && l.has(l.plugin()));
        return edited(last.unwrap_or(main));
    }
    edited(loaded.iter().rev().find(|l| l.has(l.plugin())).unwrap_or(main))
}

fn is_ours(loaded: &Loaded) -> bool {
    loaded.file.file_name().is_some_and(|name| name == DROP_IN)
}

/// The version that counts for all files, without ours; a file that has none changes nothing.
fn counting(loaded: &[Loaded]) -> i64 {
    let says = |l: &&Loaded| !is_ours(l) && l.get(&path(["version"])).is_some();
    loaded.iter().rev().find(says).map_or(1, |last| last.version)
}

/// A drop-in of ours of a time when no file of version 2 was imported.
fn aged(loaded: &[Loaded], version: i64) -> Option<String> {
    let own = loaded.iter().find(|l| is_ours(l) && l.version == version && counting(loaded) < 3)?;
    let file = own.file.display();
    (version >= 3).then(|| {
        format!("{file}: what files of version 2 say of the CRI plugin does not count with it; uninstall, then install again")
    })
}

/// A handler like runc's: with systemd's cgroups, ours need them too.
fn handler(loaded: &[Loaded]) -> Value {
    let found = |name: &str| loaded.iter().rev().find_map(|l| l.get(&l.schema().runtime(name)));
    let default = loaded.iter().rev().find_map(|l| l.get(&l.schema().default));
    let default = default.as_ref().and_then(Value::as_str).and_then(found);
    let kind =
        |handler: &Value| handler["runtime_type"].as_str().is_none_or(|kind| kind == RUNC_SHIM);
    let like = found("runc").or(default).filter(kind).unwrap_or_default();
    let said = |value: &Value| {
        !matches!(value, Value::Bool(false))
            && *value != json!("")
            && *value != json!(0)
            && *value != json!([])
    };
    let mut handler = Map::new();
    handler.insert("runtime_type".to_owned(), json!(RUNC_SHIM));
    let kept = like.as_object().into_iter().flatten();
    handler.extend(
        kept.filter(|(k, v)| !NOT_COPIED.contains(&&***k) && said(v))
            .map(|(k, v)| (k.clone(), v.clone())),
    );
    // A star does not match a key with a slash.
    handler.insert("pod_annotations".to_owned(), json!(["*", "*/*"]));
    handler.insert("container_annotations".to_owned(), json!(["*", "*/*"]));
    let options = like.get("options").and_then(Value::as_object).into_iter().flatten();
    let options =
        options.filter(|(k, v)| *k != "BinaryName" && said(v)).map(|(k, v)| (k.clone(), v.clone()));
    handler.insert("options".to_owned(), Value::Object(options.collect()));
    Value::Object(handler)
}

/// containerd 2 takes these from a file of version 2 only if there is a handler in it (`containerd
/// v2.1.9: plugins/cri/images/plugin.go`, `migrateConfig`): with ours they begin to count.
fn woken(asked: &Asked<'_>, loaded: &[Loaded]) -> Option<String> {
    let older = asked.version.is_some_and(|version| version.major < 2);
    let main = loaded.first().filter(|main| main.version == 2 && !older)?;
    let schema = main.schema();
    let there = |name: &&str| {
        let table = &schema.default[..schema.default.len() - 1];
        main.get(&table.iter().cloned().chain([(*name).to_owned()]).collect::<Vec<_>>()).is_some()
    };
    let keys = ["snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"];
    let found: Vec<&str> = keys.into_iter().filter(there).collect();
    let silent = loaded.iter().all(|l| l.get(&l.schema().runtimes).is_none()) && !found.is_empty();
    let (file, found) = (main.file.display(), found.join(", "));
    silent.then(|| format!("{file}: containerd 2 ignores {found} as long as there is no handler; with ours it does not any more"))
}

/// Before 2.0 any handler in a file replaces the built-in `runc`, without which the CRI plugin does
/// not start: it has to be written too.
fn loses_runc(asked: &Asked<'_>, loaded: &[Loaded]) -> bool {
    let newer = asked.version.is_some_and(|version| version.major >= 2);
    let ours = |name: &String| asked.runtimes.iter().any(|runtime| runtime.name == *name);
    let theirs = |l: &Loaded| {
        let there = l.get(&l.schema().runtimes);
        there.as_ref().and_then(Value::as_object).is_some_and(|map| !map.keys().all(ours))
    };
    !newer && loaded.iter().all(|l| l.version < 3 && !theirs(l))
}

/// `default_runtime` of 1.2 overrides `default_runtime_name`.
fn deprecated_default(loaded: &[Loaded]) -> Result<(), InstallError> {
    for one in loaded {
        let at = path(["plugins", one.plugin(), "containerd", "default_runtime", "runtime_type"]);
        // `containerd config default` writes all of its keys, and all are empty.
        if one.get(&at).is_some_and(|kind| kind != "") {
            let table = at[..at.len() - 1].join(".");
            return Err(InstallError::Overridden { file: one.file.clone(), path: table });
        }
    }
    Ok(())
}

/// On by default since 2.0, there since 1.7 (`containerd: docs/NRI.md`). A file of version 3 is one
/// of 2.0 or later.
fn own_nri(loaded: &[Loaded], version: Option<Version>) -> OwnNri {
    let said = loaded.iter().rev().find_map(|l| l.get(&l.own_nri()));
    let newer = loaded.iter().any(|l| l.version >= 3);
    let disabled = loaded.iter().any(|l| l.list("disabled_plugins").iter().any(|p| p == NRI));
    match (version, said) {
        (Some(Version { major: 1, minor: ..7 }), _) => OwnNri::None,
        _ if disabled => OwnNri::Off,
        (_, Some(Value::Bool(disable))) if disable => OwnNri::Off,
        (_, Some(Value::Bool(_))) => OwnNri::On,
        (Some(Version { major: 2.., .. }), _) => OwnNri::On,
        (Some(_), _) => OwnNri::Off,
        (None, _) if newer => OwnNri::On,
        (None, _) => OwnNri::Unknown,
    }
}

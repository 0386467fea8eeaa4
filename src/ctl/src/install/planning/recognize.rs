//! Recognition of our values without a manifest: runtimes that call the wrapper, the default
//! runtime if it is one of these, and links to the wrapper.

use super::manifest::{Change, EngineRecord, Manifest};
use crate::install::{
    editing::file::{ConfigFile, Format, path},
    engines::{kind::TargetEngine, table::RuntimeTable},
    error::InstallError,
    install_root::InstallRoot,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Returns a record of all values and links that are recognized as ours.
pub(super) fn record(
    root: &InstallRoot,
    engine: TargetEngine,
    own_config: &Path,
    tables: &[RuntimeTable],
    manifest: &Manifest,
) -> Result<EngineRecord, InstallError> {
    let mut record = EngineRecord::default();
    let mut names = Vec::new();
    // `made`: the number of parent tables that are removed if they are empty.
    let change = |file: &Path, path: Vec<String>, value: Value, made: usize| Change {
        file: file.to_owned(),
        path,
        value,
        previous: None,
        made,
    };
    for table in tables {
        for (name, value) in table.all(root)? {
            let binary = table.binary(&value).filter(|path| root.is_ours(path)).map(PathBuf::from);
            let Some(binary) = binary else { continue };
            record.changes.push(change(&table.file, table.runtime(&name), value, 1));
            names.push(name);
            let is_used = manifest.is_linked_by_others(engine.name(), &binary);
            if root.link(&binary).is_some() && !is_used {
                record.links.insert(binary);
            }
        }
    }
    for table in tables {
        let Some(file) = table.read(root)? else { continue };
        if let Some(value @ Value::String(_)) = file.get(&table.default)?
            && names.iter().any(|name| value == **name)
        {
            record.changes.push(change(&table.file, table.default.clone(), value, 0));
        }
    }
    if let Some(file) = ConfigFile::read(root, own_config, Format::Toml)? {
        for link in &record.links {
            let name = link.file_name().unwrap_or_default().to_string_lossy();
            let at = path(["runtime", "names", &name, "path"]);
            if let Some(value) = file.get(&at)? {
                record.changes.push(change(own_config, at, value, 3));
            }
        }
    }
    Ok(record)
}

/// Returns a note for each value that is kept because the administrator may have set it.
pub(super) fn notes_on_kept(
    root: &InstallRoot,
    engine: TargetEngine,
    own_config: &Path,
    tables: &[RuntimeTable],
) -> Result<Vec<String>, InstallError> {
    let own = Some((path(["engines", engine.name()]), None));
    let switches = tables.iter().filter_map(|table| {
        let (at, off) = table.own_nri.clone()?;
        Some((&*table.file, table.format, (at, Some(off))))
    });
    let all = switches.chain(own.map(|own| (own_config, Format::Toml, own)));
    let mut notes = Vec::new();
    for (path, format, (at, wanted)) in all {
        let Some(file) = ConfigFile::read(root, path, format)? else { continue };
        let value = file.get(&at)?;
        if let Some(value) = value.filter(|v| wanted.is_none_or(|wanted| *v == wanted)) {
            let (file, at) = (path.display(), at.join("."));
            notes
                .push(format!("{file}: {at} is {value}: kept, nrictl has no record of setting it"));
        }
    }
    Ok(notes)
}

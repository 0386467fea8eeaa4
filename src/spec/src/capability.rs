//! What real runtimes can do, as far as plugins can ask for it: a table of runtimes and versions,
//! and the check of an adjustment against it.
//!
//! The `features` verb says too little for this: it does not exist in old crun, and runc's has no
//! word on schedulers or I/O priorities. So the table was made by setting each field alone in a
//! document, running it, and reading back from inside whether it took effect, was refused, or was
//! ignored; what could not be run was read in the sources. `integration/tests/capabilities.rs`
//! repeats the former on the runtimes of a machine.
//!
//! * Only what the adjustment changed is checked. What an engine asks for is between it and its
//!   runtime.
//! * What is not in the table is passed on: fields that all runtimes have, and values that runtimes
//!   refuse by themselves with a clear message.
//! * An unknown runtime is asked everything, and one of unknown version everything that some
//!   version of it can do: nothing is dropped, and nothing refused on a guess.
//!
//! Start from [`check`]. The rows are in `table`, how they are found in a document in `asked`.

mod asked;
mod table;
mod version;

pub use table::{FILES, Feature, Lack, lack};
pub use version::{Kind, Runtime, Version};

use crate::oci_config::OciConfig;
use nri_api::proto::{Field, FieldOwners};
use protobuf::Enum;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What matters of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Whether containers are in cgroup v2; in a hybrid of both they are in v1.
    pub cgroup_v2: bool,
    /// Controllers of that version, by their names in v2: `io`, not `blkio`.
    pub controllers: BTreeSet<String>,
    /// Which of the files of [`FILES`] its cgroups have.
    pub files: BTreeSet<String>,
    /// Whether resctrl is mounted.
    pub resctrl: bool,
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
}

/// Something that plugins asked for, and the runtime cannot do on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}{} is beyond {runtime}: {lack}", asked_by(plugins))]
pub struct Beyond {
    /// What, in words, with its key where it has one.
    pub field: String,
    /// Who asked; empty if nobody claims it.
    pub plugins: Vec<String>,
    /// The runtime.
    pub runtime: Runtime,
    /// What is missing.
    pub lack: Lack,
}

/// All that plugins asked for in vain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct AllBeyond(pub Vec<Beyond>);

/// Checks what an adjustment made of a document: `before` and `after` it. `owners` are those of the
/// container.
///
/// # Errors
/// Everything that the runtime cannot do on this host.
pub fn check(
    before: &OciConfig,
    after: &OciConfig,
    owners: &FieldOwners,
    runtime: &Runtime,
    host: &Host,
) -> Result<(), AllBeyond> {
    let injectors = LazyCell::new(|| {
        let owners = owners.compound.get(&Field::CdiDevices.value()).into_iter();
        owners.flat_map(|c| c.owners.values()).map(String::as_str).collect::<BTreeSet<_>>()
    });
    let beyond = |asked: asked::Asked| {
        let lack = lack(asked.feature, runtime, host)?;
        let plugins = owners_of(&asked.claims, owners, &injectors);
        Some(Beyond { field: asked.field, plugins, runtime: runtime.clone(), lack })
    };
    let all: Vec<_> =
        asked::asked(before.value(), after.value()).into_iter().filter_map(beyond).collect();
    if all.is_empty() { Ok(()) } else { Err(AllBeyond(all)) }
}

/// Who set any of these fields; if nobody did, who injected CDI devices, whose edits may have.
fn owners_of<'a>(
    claims: &[(Field, Option<String>)],
    owners: &'a FieldOwners,
    injectors: &LazyCell<BTreeSet<&'a str>, impl FnOnce() -> BTreeSet<&'a str>>,
) -> Vec<String> {
    let mut names: BTreeSet<&str> = claims
        .iter()
        .filter_map(|(field, key)| match key {
            None => owners.simple.get(&field.value()),
            Some(key) => owners.compound.get(&field.value())?.owners.get(key),
        })
        .map(String::as_str)
        .collect();
    if names.is_empty() {
        names.clone_from(injectors);
    }
    // Several contributors are joined by commas; a leading dash marks one that removed what another
    // had set.
    let names =
        names.iter().flat_map(|n| n.split(',')).map(|n| n.trim_start_matches('-').to_owned());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn asked_by(plugins: &[String]) -> String {
    match plugins {
        [] => String::new(),
        [one] => format!(", set by plugin {one:?},"),
        many => {
            let mut text = ", set by plugins".to_owned();
            for (i, plugin) in many.iter().enumerate() {
                // writing to a string cannot fail
                let _ = write!(text, "{}{plugin:?}", if i == 0 { " " } else { " and " });
            }
            text + ","
        }
    }
}

fn listed(all: &[Beyond]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;

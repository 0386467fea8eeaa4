//! All adjustable fields of the protocol, with their rows in the table of `nri-api`: how each is
//! owned, and the values of the OCI config that it changes. `rules.rs` checks them.

use crate::protocol::{is_map, paths};
use nri_api::proto::{ContainerAdjustment, Field};
use nri_api::{FieldRow, Form, fields};
use std::sync::LazyLock;

/// One field of `ContainerAdjustment` that can be set on its own.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Path of the field in the message, in the protocol's names.
    pub(crate) path: String,
    /// Effect of the field on ownership.
    pub(crate) claim: Claim,
    /// Key that identifies the entries of the field.
    pub(crate) key: Key,
    /// JSON pointers to the values of the OCI config that the field may change. `*` stands for a
    /// key of the adjustment, `+` for a new entry of a list.
    pub(crate) pointers: Vec<String>,
}

/// Effect of an adjustment of one field on ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    /// The plugin becomes the owner of the field.
    Of(Field),
    /// The field has no owner; entries of all plugins are appended.
    Unowned,
    /// The owners of all these fields are removed.
    Clears(&'static [Field]),
}
use Claim::{Clears, Of, Unowned};

/// Key that identifies the entries of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// No key: the field has no entries, or is set as a whole.
    Whole,
    /// Key of a map; `-KEY` removes the entry.
    Map,
    /// Key of a map, without removal.
    Names,
    /// Value of the entry's field of this name, as protojson spells it; `-KEY` removes the entry.
    By(&'static str),
    /// Value of the entry's field of this name, without removal.
    Named(&'static str),
}
use Key::{By, Map, Named, Names, Whole};

/// The field that removes others instead of setting a value.
const RDT_REMOVE: &str = "linux.rdt.remove";

/// Fields with keys of which a plugin cannot remove one.
const WITHOUT_REMOVAL: [&str; 4] =
    ["CDI_devices", "linux.resources.hugepage_limits", "linux.resources.unified", "rlimits"];

/// What makes a container whose CPUs are set a partition, which would undo that.
const PARTITION: [&str; 2] = [
    "/linux/resources/unified/cpuset.cpus.exclusive",
    "/linux/resources/unified/cpuset.cpus.partition",
];

/// Values of the OCI config that a field may change besides its own.
const ALSO_CHANGED: &[(&str, &[&str])] = &[
    ("mounts", &["/linux/rootfsPropagation"]),
    ("linux.devices", &["/linux/resources/devices/+"]),
    ("linux.resources.cpu.cpus", &PARTITION),
    ("linux.resources.cpu.mems", &PARTITION),
    ("linux.resources.memory.limit", &["/linux/resources/memory/swap"]),
    ("linux.resources.rdt_class", &["/linux/intelRdt"]),
    (
        "CDI_devices",
        &[
            "/process/env",
            "/process/user/additionalGids",
            "/mounts",
            "/hooks",
            "/linux/devices",
            "/linux/resources/devices/+",
            "/linux/netDevices",
            "/linux/intelRdt",
        ],
    ),
];

/// The rows of all fields of the protocol that the table of `nri-api` has.
pub(crate) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let is_of = |path: &str, row: &FieldRow| {
        let below = path.strip_prefix(row.message).filter(|_| !row.message.is_empty());
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    };
    let row = |path: String| Some(Row::new(fields().find(|row| is_of(&path, row))?, path));
    paths::<ContainerAdjustment>().into_iter().filter_map(row).collect()
});

impl Row {
    fn new(row: FieldRow, path: String) -> Self {
        let is_removable = !WITHOUT_REMOVAL.contains(&path.as_str());
        let key = match row.form {
            Form::Map if !is_map::<ContainerAdjustment>(&path) => Named("name"),
            Form::Map if is_removable => Map,
            Form::Map => Names,
            Form::List(key) if is_removable => By(key),
            Form::List(key) => Named(key),
            Form::Variables => By("key"),
            Form::Value | Form::Parts | Form::Appended | Form::AppendedByKey => Whole,
        };
        let claim = match row.owner {
            _ if path == RDT_REMOVE => {
                Clears(&[Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring])
            }
            Some(owner) => Of(owner),
            None => Unowned,
        };
        let also = ALSO_CHANGED.iter().filter(|(field, _)| *field == path);
        let also = also.flat_map(|(_, pointers)| *pointers).map(|pointer| (*pointer).to_owned());
        let pointers = own_pointer(&row, &path).into_iter().chain(also).collect();
        Self { path, claim, key, pointers }
    }
}

/// Returns the JSON pointer to the values of a field.
fn own_pointer(row: &FieldRow, path: &str) -> Option<String> {
    let place = if path.starts_with("linux.resources.") { "/linux/resources/" } else { "/" };
    let pointer = format!("{place}{}", row.path.join("/"));
    let own = match row.form {
        Form::Value | Form::Parts => pointer,
        Form::Map | Form::List(_) | Form::Variables => format!("{pointer}/*"),
        Form::Appended => format!("{pointer}/+"),
        Form::AppendedByKey => {
            let last = path.rsplit('.').next().unwrap_or_default();
            format!("{pointer}/{}/+", crate::protocol::json_name(last))
        }
    };
    Some(own).filter(|_| !row.path.is_empty())
}

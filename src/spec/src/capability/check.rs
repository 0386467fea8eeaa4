//! Check of an adjustment against the capabilities of a runtime.

use super::host::HostCapabilities;
use super::requested::{Requested, requested};
use super::table::{Lack, lack};
use super::version::RuntimeVersion;
use crate::oci_config::OciConfig;
use nri_api::proto::{Field, FieldOwners};
use nri_api::set_by;
use protobuf::Enum;
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// A field that plugins requested and the runtime does not support on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field}{} is not supported by {runtime}: {lack}",
    set_by(plugins.iter().map(String::as_str))
)]
pub struct Unsupported {
    /// Name of the field, with its key if it has one.
    pub field: String,
    /// Plugins that requested the field; empty if no plugin owns it.
    pub plugins: Vec<String>,
    /// The runtime.
    pub runtime: RuntimeVersion,
    /// Reason.
    pub lack: Lack,
}

/// All requested fields that the runtime does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct UnsupportedFields(pub Vec<Unsupported>);

/// Checks the fields that an adjustment changed, which are the differences between the OCI configs
/// `before` and `after` the adjustment. `owners` says which plugin set which field.
///
/// # Errors
/// Every changed field that the runtime does not support on this host.
pub fn check(
    before: &OciConfig,
    after: &OciConfig,
    owners: &FieldOwners,
    runtime: &RuntimeVersion,
    host: &HostCapabilities,
) -> Result<(), UnsupportedFields> {
    let injectors = LazyCell::new(|| {
        let owners = owners.compound.get(&Field::CdiDevices.value()).into_iter();
        owners.flat_map(|c| c.owners.values()).map(String::as_str).collect::<BTreeSet<_>>()
    });
    let unsupported = |requested: Requested| {
        let lack = lack(requested.feature, runtime, host)?;
        let plugins = owners_of(&requested.claims, owners, &injectors);
        Some(Unsupported { field: requested.field, plugins, runtime: runtime.clone(), lack })
    };
    let all: Vec<_> =
        requested(before.value(), after.value()).into_iter().filter_map(unsupported).collect();
    if all.is_empty() { Ok(()) } else { Err(UnsupportedFields(all)) }
}

/// Returns the plugins that own any of these fields. If none does, returns `injectors`, the plugins
/// that injected CDI devices: edits of the devices may have set the fields.
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
    // Several contributors are joined by commas; a leading dash marks a plugin that removed the
    // value of another plugin.
    let names =
        names.iter().flat_map(|n| n.split(',')).map(|n| n.trim_start_matches('-').to_owned());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn listed(all: &[Unsupported]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

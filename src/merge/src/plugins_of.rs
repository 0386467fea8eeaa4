//! [`plugins_of`]: which plugins set fields, for messages about an outcome.

use nri_api::proto::{Field, FieldOwners};
use protobuf::Enum;
use std::collections::BTreeSet;

/// Returns the plugins that own any of these fields or entries, each once.
pub fn plugins_of(owners: &FieldOwners, fields: &[(Field, Option<&str>)]) -> BTreeSet<String> {
    let owner = |(field, key): &(Field, Option<&str>)| match key {
        None => owners.simple.get(&field.value()),
        Some(key) => owners.compound.get(&field.value())?.owners.get(*key),
    };
    // Several contributors are joined by commas; a leading dash marks a plugin that removed the
    // value of another plugin.
    let names = fields.iter().filter_map(owner).flat_map(|names| names.split(','));
    names.map(|name| name.trim_start_matches('-').to_owned()).collect()
}

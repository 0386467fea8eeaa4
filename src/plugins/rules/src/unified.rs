//! The two ways to set a limit: a field such as `memory.limit`, and the entry of `unified` for its
//! file, here `memory.max`, which runtimes write after the field. Rules compare the value that the
//! kernel gets, and what they change is changed in both.

use crate::field::{self, FieldValue, Group, Key, set_value};
use nri_api::{RESOURCE_FIELDS, fields_of_file, proto::LinuxResources};
use nri_cgroup::{effective_resources, file_texts, incomparable_entry};
use nri_plugin::proto::Container;
use nri_spec::merge_resources;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// Returns a container whose fields have the values that the kernel gets.
pub(crate) fn effective(mut container: Container) -> Container {
    if !container.linux.resources.unified.is_empty() {
        let linux = container.linux.mut_or_insert_default();
        linux.resources = Some(effective_resources(&linux.resources)).into();
    }
    container
}

/// Returns the fields that an entry of `unified` sets, too.
pub(crate) fn fields_of(file: &str) -> impl Iterator<Item = Key> {
    fields_of_file(file).filter_map(|(row, size)| match size {
        "" => field::field(row.name),
        size => Some(Key::Entry(Group::Hugepages, size.to_owned())),
    })
}

/// Whether the text of a file follows from a field: from its own, or from one that its own depends
/// on.
pub(crate) fn follows(file: &str, key: &Key) -> bool {
    fields_of(file).any(|own| own == *key || own.depends_on().as_ref() == Some(key))
}

/// Whether the value of a field depends on a file.
pub(crate) fn decides(file: &str, key: &Key) -> bool {
    fields_of(file).any(|own| own == *key || key.depends_on().as_ref() == Some(&own))
}

/// Returns the entry of `unified` that sets what a field sets, and cannot be compared with it.
pub(crate) fn incomparable<'a>(key: &Key, unified: &'a HashMap<String, String>) -> Option<&'a str> {
    let Key::Field(row) = key else { return None };
    let field = RESOURCE_FIELDS.iter().find(|field| field.name == row.name)?;
    incomparable_entry(field, unified)
}

/// Returns the texts of files that say what the fields of resources say.
pub(crate) fn texts(resources: &LinuxResources) -> BTreeMap<String, String> {
    let mut fields = resources.clone();
    fields.unified.clear();
    fields.devices.clear();
    let mut oci = json!({});
    merge_resources(&mut oci, &fields);
    file_texts(&oci)
}

/// Returns the values of fields, as far as they are resources, in place of those of a container.
pub(crate) fn with_values<'a>(
    container: &Container,
    values: impl Iterator<Item = (&'a Key, &'a FieldValue)>,
) -> LinuxResources {
    let mut resources = container.linux.resources.get_or_default().clone();
    // Those of the container are in its fields already.
    resources.unified.clear();
    values.for_each(|(key, value)| set_value(&mut resources, key, value));
    effective_resources(&resources)
}

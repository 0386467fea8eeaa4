//! Annotations: `annotations`.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_all_at, set_at};
use crate::json::read::{Object, Read, field_or_default, map, text};
use nri_api::{Marked, proto::ContainerAdjustment, removal_key};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) fn read(spec: &Object) -> Read<HashMap<String, String>> {
    field_or_default(spec, "annotations", map(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    apply_map(spec, "annotations", &[], "annotations", &adjust.annotations)
}

/// Applies a map of strings at `path`.`key`. A key that is both removed and set is set, and keeps
/// its position.
pub(crate) fn apply_map(
    spec: &mut Value,
    group: &'static str,
    path: &[&str],
    key: &str,
    changes: &HashMap<String, String>,
) -> Result<(), ApplyError> {
    let path: Vec<&str> = path.iter().copied().chain([key]).collect();
    let sorted: BTreeMap<_, _> = changes.iter().collect(); // protocol maps have no order
    remove_all_at(spec, &path, &removed_keys(changes)).map_err(in_field(group))?;
    for (name, value) in sorted {
        if let Marked::Set(name) = Marked::parse(name) {
            set_at(spec, &path, name, value.as_str()).map_err(in_field(group))?;
        }
    }
    Ok(())
}

/// Returns the keys that a map removes and does not set.
pub(crate) fn removed_keys<V>(changes: &HashMap<String, V>) -> HashSet<&str> {
    // An entry `-a` removes `a`. It does not set a key `-a`, so it cannot undo the removal of `-a`.
    let marked = changes.keys().filter_map(|key| removal_key(key));
    marked.filter(|key| !(Marked::sets(key, key) && changes.contains_key(*key))).collect()
}

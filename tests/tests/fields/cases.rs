//! Runs a case (OCI config, adjustment, expected OCI config): merges the adjustment and applies the
//! outcome to the OCI config. [`without`] returns smaller adjustments, which show whether the
//! result of a case depends on a value.

use crate::pointers::escaped;
use crate::spec_tests::{apply_on, files, message, protojson, read_json};
use nri_api::PluginId;
use nri_api::proto::{Container, ContainerAdjustment, CreateContainerResponse};
use nri_merge::CreateMerge;
use nri_spec::{ContainerInfo, OciConfig, to_container};
use serde_json::Value;
use std::path::PathBuf;

/// A case: OCI config, adjustment, expected OCI config.
pub(crate) struct Case {
    /// Name of the file.
    pub(crate) name: String,
    pub(crate) case: Value,
    /// The adjustment, as protojson spells it.
    pub(crate) adjust: Value,
}

/// Cases whose adjustment is no outcome of the merge.
const NOT_MERGED: [&str; 3] = [
    "annotations/null-before", // a null is removed with another key
    "namespaces/removal-and-setting",
    "rdt/remove-and-set",
];

/// Returns the cases of `nri-spec`, and those in `tests/cases/fields`, that have a result.
pub(crate) fn all() -> Vec<Case> {
    let folders = ["../../src/spec/tests/cases", "../cases/fields"];
    let is_merged =
        |path: &PathBuf| !NOT_MERGED.iter().any(|name| path.with_extension("").ends_with(name));
    let all = folders.into_iter().flat_map(|folder| files(folder, ".json")).filter(is_merged);
    let case = |path: PathBuf| {
        let case = read_json(&path);
        let adjust = protojson(&message::<ContainerAdjustment>(&case["adjust"]));
        Case { name: path.display().to_string(), case, adjust }
    };
    all.map(case).filter(|case| case.case.get("expect").is_some()).collect()
}

/// Returns the OCI config of the case after one plugin requested `adjust`.
pub(crate) fn run(case: &Value, adjust: &Value) -> Result<Value, String> {
    let config = OciConfig::from_value(case["spec"].clone()).map_err(|e| e.to_string())?;
    let info = ContainerInfo { id: "me".to_owned(), ..Default::default() };
    let container = to_container(&config, &info).map_err(|e| e.to_string())?;
    let mut merge = CreateMerge::new(Default::default(), container);
    let adjust = Some(message::<ContainerAdjustment>(adjust)).into();
    let reply = CreateContainerResponse { adjust, ..Default::default() };
    merge.reply(&PluginId::from_file_name("00-p").unwrap(), reply).map_err(|e| e.to_string())?;
    apply_on(&case["host"], &case["spec"], &protojson(&merge.finish().adjust))
        .map(|(after, _)| after)
}

/// Returns the container that plugins see for an OCI config.
pub(crate) fn container(config: Value) -> Container {
    let config = OciConfig::from_value(config).unwrap();
    to_container(&config, &ContainerInfo::default()).unwrap()
}

/// Returns copies of an adjustment, each without one value at the path `leaf`. A path through lists
/// and maps has several values, and so several copies.
pub(crate) fn without(adjust: &Value, leaf: &str) -> Vec<Value> {
    let steps: Vec<&str> = leaf.split('.').collect();
    let mut found = Vec::new();
    pointers(adjust, "", &steps, &mut found);
    let remove = |pointer: String| {
        let (parent, key) = pointer.rsplit_once('/')?;
        let mut copy = adjust.clone();
        copy.pointer_mut(parent)?.as_object_mut()?.shift_remove(key)?;
        Some(copy)
    };
    found.into_iter().filter_map(remove).collect()
}

/// Collects JSON pointers to all values below `at` at the path `steps`. A step is the name of a
/// field, or `[]` for any key of a map; lists have no step.
fn pointers(at: &Value, path: &str, steps: &[&str], found: &mut Vec<String>) {
    let Some((step, rest)) = steps.split_first() else { return };
    match at {
        Value::Array(entries) => {
            entries
                .iter()
                .enumerate()
                .for_each(|(i, e)| pointers(e, &format!("{path}/{i}"), steps, found));
        }
        Value::Object(entries) if *step == "[]" => entries.iter().for_each(|(key, entry)| {
            pointers(entry, &format!("{path}/{}", escaped(key)), rest, found);
        }),
        Value::Object(fields) => match fields.get(*step) {
            Some(_) if rest.is_empty() => found.push(format!("{path}/{step}")),
            Some(inner) => pointers(inner, &format!("{path}/{step}"), rest, found),
            None => {}
        },
        _ => {}
    }
}

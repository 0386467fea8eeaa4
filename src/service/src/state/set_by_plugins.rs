//! The annotation that says which annotations of a container plugins have set, for plugins that
//! keep there what they have decided: engines, users and images can set any other annotation.

use nri_api::proto::{Container, Field, FieldOwners};
use protobuf::Enum;
use std::collections::BTreeMap;

/// Key of the annotation. Its prefix is reserved (`verb/creation/facts.rs`).
const KEY: &str = "facts.nri-container-runtime/set-by-plugins";

/// Adds the annotation: a JSON object of plugins by keys. It is there without any keys, too, since
/// its absence means that the runtime does not know.
pub(super) fn add(container: &mut Container, owners: &FieldOwners) {
    let annotations = owners.compound.get(&Field::Annotations.value());
    let owners = annotations.iter().flat_map(|keyed| &keyed.owners);
    // A leading `-` is that of a plugin that removed the annotation of another one.
    let set: BTreeMap<_, _> = owners.filter(|(_, plugin)| !plugin.starts_with('-')).collect();
    container.annotations.insert(KEY.to_owned(), serde_json::json!(set).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::CompoundFieldOwners;

    #[test]
    fn annotations_of_plugins_are_named_and_no_others() {
        let mut container = Container::default();
        container.annotations.insert("a".to_owned(), "user".to_owned());
        let mut owners = FieldOwners::default();
        add(&mut container, &owners);
        assert_eq!(container.annotations[KEY], "{}");
        let keyed = [("b", "10-p"), ("c", "-20-q"), ("a", "20-q")];
        let keyed = keyed.map(|(key, plugin)| (key.to_owned(), plugin.to_owned()));
        let keyed = CompoundFieldOwners { owners: keyed.into(), ..Default::default() };
        owners.compound.insert(Field::Annotations.value(), keyed);
        add(&mut container, &owners);
        assert_eq!(container.annotations[KEY], r#"{"a":"20-q","b":"10-p"}"#);
        assert_eq!(container.annotations["a"], "user");
    }
}

//! The annotations that say which annotations and resources of a container plugins have set, for
//! plugins that keep there what they have decided: engines, users and images can set any other
//! annotation, and engines can update resources while a plugin is not connected.

use nri_api::{
    RESOURCE_FIELDS,
    proto::{Container, Field, FieldOwners},
};
use protobuf::Enum;
use std::collections::BTreeMap;

/// Key of the annotation about annotations. Its prefix is reserved (`verb/creation/facts.rs`).
const KEY: &str = "facts.nri-container-runtime/set-by-plugins";

/// Key of the annotation about resources. A plugin chooses keys of annotations, and could choose
/// the name of a field, so that fields have an annotation of their own.
const RESOURCES_KEY: &str = "facts.nri-container-runtime/resources-set-by-plugins";

/// Adds the annotations: JSON objects of plugins by keys, and by resource fields with one value,
/// which they have set last. They are there without any keys, too, since their absence means that
/// the runtime does not know.
pub(super) fn add(container: &mut Container, owners: &FieldOwners) {
    let annotations = owners.compound.get(&Field::Annotations.value());
    let keyed = annotations.iter().flat_map(|keyed| &keyed.owners);
    // A leading `-` is that of a plugin that removed what another one has set.
    let set: BTreeMap<_, _> = keyed.filter(|(_, plugin)| !plugin.starts_with('-')).collect();
    container.annotations.insert(KEY.to_owned(), serde_json::json!(set).to_string());
    let fields = RESOURCE_FIELDS.iter().filter_map(|field| {
        let plugin = owners.simple.get(&field.owner?.value())?;
        (!plugin.starts_with('-')).then_some((field.name, plugin))
    });
    let set: BTreeMap<_, _> = fields.collect();
    container.annotations.insert(RESOURCES_KEY.to_owned(), serde_json::json!(set).to_string());
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

    #[test]
    fn resources_name_the_plugin_that_set_them_last() {
        let (mut container, mut owners) = (Container::default(), FieldOwners::default());
        add(&mut container, &owners);
        assert_eq!(container.annotations[RESOURCES_KEY], "{}");
        owners.simple.insert(Field::CPUSetCPUs.value(), "10-p".to_owned());
        owners.simple.insert(Field::MemLimit.value(), "-20-q".to_owned());
        // A plugin cannot name a field by an annotation.
        let keyed = [("cpu.mems".to_owned(), "20-q".to_owned())].into();
        let keyed = CompoundFieldOwners { owners: keyed, ..Default::default() };
        owners.compound.insert(Field::Annotations.value(), keyed);
        add(&mut container, &owners);
        assert_eq!(container.annotations[RESOURCES_KEY], r#"{"cpu.cpus":"10-p"}"#);
        assert_eq!(container.annotations[KEY], r#"{"cpu.mems":"20-q"}"#);
    }
}

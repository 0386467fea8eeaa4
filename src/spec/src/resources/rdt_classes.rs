//! RDT classes of a configuration in goresctrl's format: `{"partitions": {P: {"classes": {NAME:
//! …}}}}`.

use crate::json::read::{Read, field_or_default, map, object};
use crate::json::wrong_type::WrongType;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names of the classes of an RDT configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RdtClasses(BTreeSet<String>);

impl RdtClasses {
    /// Reads the classes of all partitions: `{"partitions": {P: {"classes": {NAME: …}}}}`.
    /// Allocations are ignored.
    pub fn parse(config: &Value) -> Result<Self, WrongType> {
        let partitions = field_or_default(object(config)?, "partitions", map(read_partition))?;
        Ok(Self(partitions.into_values().flatten().collect()))
    }

    /// The `intelRdt` object of a class; goresctrl calls the root group `system/default`.
    pub fn resolve(&self, name: &str) -> Option<Value> {
        match name {
            "system/default" => Some(json!({ "closID": "/" })),
            _ => self.0.contains(name).then(|| json!({ "closID": name })),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn read_partition(value: &Value) -> Read<Vec<String>> {
    let classes = field_or_default(object(value)?, "classes", map(|_| Ok(())))?;
    Ok(classes.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_all_partitions_are_resolved() {
        let config = json!({ "options": {}, "partitions": {
            "guaranteed": { "l3Allocation": "60%",
                "classes": { "gold": { "l3Allocation": "100%" } } },
            "shared": { "classes": { "silver": {}, "bronze": null } }, "empty": {},
        } });
        let classes = RdtClasses::parse(&config).unwrap();
        assert_eq!(classes.names().collect::<Vec<_>>(), ["bronze", "gold", "silver"]);
        for (name, expected) in [
            ("gold", Some(json!({ "closID": "gold" }))),
            ("system/default", Some(json!({ "closID": "/" }))),
            ("guaranteed", None),
            ("", None),
        ] {
            assert_eq!(classes.resolve(name), expected, "{name}");
        }
        let wrong = RdtClasses::parse(&json!({ "partitions": { "p": { "classes": [] } } }));
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "partitions.p.classes is an array, not an object"
        );
        assert_eq!(RdtClasses::parse(&json!({})), Ok(RdtClasses::default()));
    }
}

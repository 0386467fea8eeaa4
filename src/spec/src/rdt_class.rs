//! Resource director technology by class: a name becomes `linux.intelRdt`, the empty name removes
//! it.
//!
//! A class is the control group (`closID`) of that name; making such groups and their schemata is
//! the business of who administers resctrl. [`Classes`] knows the names from a configuration in
//! goresctrl's format.

use crate::blockio::resolved;
use crate::context::ApplyContext;
use crate::edit::{in_field, remove_at, set_at};
use crate::error::{ApplyError, WrongType};
use crate::read::{Read, field_or_default, map, object};
use nri_api::proto::ContainerAdjustment;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const FIELD: &str = "RDT class";

/// The class, which replaces all that was there.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(class) = adjust.linux.resources.rdt_class.as_ref().map(|c| c.value.as_str()) else {
        return Ok(());
    };
    let done = if class.is_empty() {
        remove_at(spec, &["linux"], "intelRdt")
    } else {
        let value = resolved(FIELD, class, (ctx.rdt)(class))?;
        set_at(spec, &["linux"], "intelRdt", value)
    };
    done.map_err(in_field(FIELD))
}

/// Names of the classes of an RDT configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes(BTreeSet<String>);

impl Classes {
    /// Reads the classes of all partitions: `{"partitions": {P: {"classes": {NAME: …}}}}`.
    /// Allocations are not looked at.
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
    fn classes() {
        let config = json!({ "options": {}, "partitions": {
            "guaranteed": { "l3Allocation": "60%", "classes": { "gold": { "l3Allocation": "100%" } } },
            "shared": { "classes": { "silver": {}, "bronze": null } }, "empty": {},
        } });
        let classes = Classes::parse(&config).unwrap();
        assert_eq!(classes.names().collect::<Vec<_>>(), ["bronze", "gold", "silver"]);
        for (name, expected) in [
            ("gold", Some(json!({ "closID": "gold" }))),
            ("system/default", Some(json!({ "closID": "/" }))),
            ("guaranteed", None),
            ("", None),
        ] {
            assert_eq!(classes.resolve(name), expected, "{name}");
        }
        let wrong = Classes::parse(&json!({ "partitions": { "p": { "classes": [] } } }));
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "partitions.p.classes is an array, not an object"
        );
        assert_eq!(Classes::parse(&json!({})), Ok(Classes::default()));
    }
}

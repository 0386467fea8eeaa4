//! Resource fields whose values were not requested, because they follow from other fields.

use nri_api::proto::{Field, FieldOwners};
use protobuf::Enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The derived fields of a container, by name, each with the field that it follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DerivedFields(BTreeMap<String, String>);

impl DerivedFields {
    /// Whether no field is derived.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the field that `field` follows.
    pub fn source(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    /// Sets whether the limit of memory and swap follows that of memory. Then the owner of the one
    /// is that of the other.
    pub fn set_swap(&mut self, follows: bool, owners: &mut FieldOwners) {
        let [limit, swap] = [Field::MemLimit, Field::MemSwapLimit].map(|field| field.value());
        if !follows {
            self.0.remove("memory.swap");
            return;
        }
        self.0.insert("memory.swap".to_owned(), "memory.limit".to_owned());
        owners.simple.remove(&swap);
        if let Some(owner) = owners.simple.get(&limit).cloned() {
            owners.simple.insert(swap, owner);
        }
    }
}

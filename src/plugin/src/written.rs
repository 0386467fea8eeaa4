//! Fields that an adjustment or an update has written, and the mistakes found in it.

use nri_api::{full_name, proto::Field};
use std::collections::BTreeSet;

/// A mistake of the plugin in its reply. The runtime receives its text as the error of the event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The reply writes one field, or one entry of a field, twice.
    #[error("the reply writes {0} twice: set, override or remove it once")]
    Twice(String),
    /// A key is empty.
    #[error("the reply writes {field} with an empty key")]
    EmptyKey {
        /// Name of the field.
        field: &'static str,
    },
    /// A key begins with `-`, which the protocol takes for a removal.
    #[error("the reply writes {0}, whose leading - means removal: remove it by name")]
    Removal(String),
    /// An update has no container.
    #[error("the reply updates a container without an id")]
    NoContainer,
    /// The reply to a creation updates the container that is being created.
    #[error("the reply updates container {0}, which is being created: adjust it instead")]
    Created(String),
}

/// What was written so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenFields {
    written: BTreeSet<String>,
    mistake: Option<Mistake>,
}

impl WrittenFields {
    /// Records that a field is written.
    pub(crate) fn field(&mut self, field: Field) {
        self.write(full_name(field, None));
    }

    /// Records that an entry of a field is written.
    pub(crate) fn entry(&mut self, field: Field, key: &str) {
        let name = full_name(field, Some(key));
        if key.is_empty() {
            self.found(Mistake::EmptyKey { field: nri_api::field_name(field) });
        } else if nri_api::removal_key(key).is_some() {
            self.found(Mistake::Removal(name));
        } else {
            self.write(name);
        }
    }

    /// Adds what another part of the same reply has written to the same container.
    pub(crate) fn join(&mut self, other: &Self) {
        if let Some(mistake) = &other.mistake {
            self.found(mistake.clone());
        }
        other.written.iter().for_each(|name| self.write(name.clone()));
    }

    /// Records a mistake. The first one is kept.
    pub(crate) fn found(&mut self, mistake: Mistake) {
        self.mistake.get_or_insert(mistake);
    }

    /// Returns the first mistake, if any.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        self.mistake.clone().map_or(Ok(()), Err)
    }

    fn write(&mut self, name: String) {
        if self.written.contains(&name) {
            self.found(Mistake::Twice(name));
        } else {
            self.written.insert(name);
        }
    }
}

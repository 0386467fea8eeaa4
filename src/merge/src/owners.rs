//! The ledger of claims: which plugin owns which field (and key) of which container.
//!
//! It knows nothing of values; the files of the field groups claim here before they set anything. Every change is
//! journalled, so that a refused reply, or an update whose failure is to be ignored, leaves no claim behind.

use crate::MergeError;
use nri_api::proto::{Field, OwningPlugins};
use nri_api::{FieldKind, PluginId, field_kind};
use protobuf::Enum;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimKey {
    container: String,
    field: i32,
    key: String, // empty for a field that is owned as a whole
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// Set by this plugin.
    Set(PluginId),
    /// Was set; this plugin removed it and may set it anew, nobody else.
    Cleared(PluginId),
    /// All of these contributed.
    Shared(Vec<PluginId>),
}

/// All claims of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    claims: BTreeMap<ClaimKey, Owner>,
    journal: Vec<(ClaimKey, Option<Owner>)>,
}

/// A point of the journal to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

/// The ledger as one plugin and one container see it.
pub(crate) struct Claims<'a> {
    owners: &'a mut Owners,
    plugin: &'a PluginId,
    container: &'a str,
}

impl Owners {
    pub(crate) fn claims<'a>(&'a mut self, plugin: &'a PluginId, container: &'a str) -> Claims<'a> {
        Claims { owners: self, plugin, container }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Withdraws all claims made since `mark`.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        for (key, previous) in self.journal.drain(mark.0..).rev() {
            match previous {
                Some(owner) => self.claims.insert(key, owner),
                None => self.claims.remove(&key),
            };
        }
    }

    /// Withdraws all claims since the last commit.
    pub(crate) fn rollback_all(&mut self) {
        self.rollback(Mark(0));
    }

    /// Makes all claims so far final.
    pub(crate) fn commit(&mut self) {
        self.journal.clear();
    }

    /// The ledger as the protocol tells it to validators. Upstream's notation: a plugin that removed what another had
    /// set, and did not set it anew, has a leading `-`; contributors are joined by commas.
    pub(crate) fn to_proto(&self) -> OwningPlugins {
        let mut all = OwningPlugins::new();
        for (claim, owner) in &self.claims {
            let owner = match owner {
                Owner::Set(plugin) => plugin.to_string(),
                Owner::Cleared(plugin) => format!("-{plugin}"),
                Owner::Shared(plugins) => {
                    plugins.iter().map(PluginId::to_string).collect::<Vec<_>>().join(",")
                }
            };
            let fields = all.owners.entry(claim.container.clone()).or_default();
            if Field::from_i32(claim.field).and_then(field_kind) == Some(FieldKind::Compound) {
                fields.compound.entry(claim.field).or_default().owners.insert(claim.key.clone(), owner);
            } else {
                fields.simple.insert(claim.field, owner);
            }
        }
        all
    }

    fn put(&mut self, key: ClaimKey, owner: Owner) {
        let previous = self.claims.insert(key.clone(), owner);
        self.journal.push((key, previous));
    }
}

impl Claims<'_> {
    /// Claims a field that has one owner.
    pub(crate) fn whole(&mut self, field: Field) -> Result<(), MergeError> {
        self.claim(field, None)
    }

    /// Claims `wanted` fields, in their order.
    pub(crate) fn each<const N: usize>(&mut self, wanted: [(bool, Field); N]) -> Result<(), MergeError> {
        wanted.into_iter().filter(|(wanted, _)| *wanted).try_for_each(|(_, field)| self.whole(field))
    }

    /// Claims one key of a field that has an owner per key.
    pub(crate) fn keyed(&mut self, field: Field, key: &str) -> Result<(), MergeError> {
        self.claim(field, Some(key))
    }

    /// Removal of a key: if a plugin set it, its claim passes to this one.
    pub(crate) fn pass_on(&mut self, field: Field, key: &str) {
        let claim = self.key(field, Some(key));
        if let Some(Owner::Set(_)) = self.owners.claims.get(&claim) {
            self.owners.put(claim, Owner::Cleared(self.plugin.clone()));
        }
    }

    /// Removal of a whole field: whoever had it, this plugin alone may set it now.
    pub(crate) fn clear(&mut self, field: Field) {
        self.owners.put(self.key(field, None), Owner::Cleared(self.plugin.clone()));
    }

    /// Notes a contribution to a field whose contributions add up.
    pub(crate) fn contribute(&mut self, field: Field) {
        let claim = self.key(field, None);
        let mut plugins = match self.owners.claims.get(&claim) {
            Some(Owner::Shared(plugins)) => plugins.clone(),
            _ => Vec::new(),
        };
        plugins.push(self.plugin.clone());
        self.owners.put(claim, Owner::Shared(plugins));
    }

    fn claim(&mut self, field: Field, key: Option<&str>) -> Result<(), MergeError> {
        let claim = self.key(field, key);
        let other = match self.owners.claims.get(&claim) {
            Some(Owner::Set(other)) => Some(other),
            Some(Owner::Cleared(other)) if other != self.plugin => Some(other),
            Some(Owner::Shared(others)) => others.last(),
            _ => None,
        };
        if let Some(owner) = other {
            return Err(MergeError::Conflict {
                plugin: self.plugin.clone(),
                owner: owner.clone(),
                field,
                key: key.map(str::to_owned),
                container: self.container.to_owned(),
            });
        }
        self.owners.put(claim, Owner::Set(self.plugin.clone()));
        Ok(())
    }

    fn key(&self, field: Field, key: Option<&str>) -> ClaimKey {
        ClaimKey {
            container: self.container.to_owned(),
            field: field.value(),
            key: key.unwrap_or_default().to_owned(),
        }
    }
}

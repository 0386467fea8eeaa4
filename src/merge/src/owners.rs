//! Ledger of claims: which plugin owns which field (and key) of which container.
//!
//! The ledger has no values; the field groups claim fields here before they set them. Changes are
//! recorded in a journal, so that the claims of a refused reply, or of a failed update with
//! `ignore_failure`, can be rolled back.

use crate::error::MergeError;
use nri_api::proto::{Field, OwningPlugins};
use nri_api::{FieldKind, PluginId, field_kind};
use protobuf::Enum;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimKey {
    field: i32,
    key: Arc<str>, // empty for a field that is owned as a whole
}

/// Owner of a claim. Plugin ids are shared: there may be as many claims as a message has entries.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// The plugin that set the value.
    Set(Arc<PluginId>),
    /// The plugin that removed the value. Only this plugin may set it again.
    Cleared(Arc<PluginId>),
    /// The plugins that contributed to the value.
    Shared(Vec<Arc<PluginId>>),
}

/// Claims on one container.
type Ledger = BTreeMap<ClaimKey, Owner>;

/// Claims of one request, by container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    ledgers: BTreeMap<String, Ledger>,
    journal: Vec<Page>,
}

/// Changes of one update or adjustment to the ledger of its container.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    container: String,
    previous: Vec<(ClaimKey, Option<Owner>)>,
}

/// Position in the journal to roll back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

/// Ledger of one container, for claims of one plugin.
pub(crate) struct Claims<'a> {
    ledger: &'a mut Ledger,
    previous: &'a mut Vec<(ClaimKey, Option<Owner>)>,
    plugin: Arc<PluginId>,
    container: &'a str,
}

impl Owners {
    /// Returns the ledger of a container, for claims of `plugin`. The container is looked up once
    /// for all claims, since its id may be as long as a message.
    pub(crate) fn claims<'a>(&'a mut self, plugin: &PluginId, container: &'a str) -> Claims<'a> {
        self.journal.push(Page { container: container.to_owned(), previous: Vec::new() });
        let last = self.journal.len() - 1;
        Claims {
            ledger: self.ledgers.entry(container.to_owned()).or_default(),
            previous: &mut self.journal[last].previous,
            plugin: Arc::new(plugin.clone()),
            container,
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Withdraws all claims made since `mark`.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        for Page { container, previous } in self.journal.split_off(mark.0).into_iter().rev() {
            let Some(ledger) = self.ledgers.get_mut(&container) else { continue };
            for (key, previous) in previous.into_iter().rev() {
                match previous {
                    Some(owner) => ledger.insert(key, owner),
                    None => ledger.remove(&key),
                };
            }
            self.drop_empty(&container);
        }
    }

    /// Withdraws all claims since the last commit.
    pub(crate) fn rollback_all(&mut self) {
        self.rollback(Mark(0));
    }

    /// Makes all claims final.
    pub(crate) fn commit(&mut self) {
        for page in std::mem::take(&mut self.journal).iter().filter(|page| page.previous.is_empty())
        {
            self.drop_empty(&page.container);
        }
    }

    fn drop_empty(&mut self, container: &str) {
        if self.ledgers.get(container).is_some_and(Ledger::is_empty) {
            self.ledgers.remove(container);
        }
    }

    /// Returns the owners in the form of the protocol, for validators. As in upstream NRI a plugin
    /// that removed the value of another, and did not set it again, has a leading `-`, and
    /// contributors are joined by commas.
    pub(crate) fn to_proto(&self) -> OwningPlugins {
        let mut all = OwningPlugins::new();
        for (container, ledger) in &self.ledgers {
            let fields = all.owners.entry(container.clone()).or_default();
            for (claim, owner) in ledger {
                let owner = match owner {
                    Owner::Set(plugin) => plugin.to_string(),
                    Owner::Cleared(plugin) => format!("-{plugin}"),
                    Owner::Shared(plugins) => {
                        plugins.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
                    }
                };
                if Field::from_i32(claim.field).and_then(field_kind) == Some(FieldKind::Compound) {
                    fields
                        .compound
                        .entry(claim.field)
                        .or_default()
                        .owners
                        .insert(claim.key.to_string(), owner);
                } else {
                    fields.simple.insert(claim.field, owner);
                }
            }
        }
        all
    }
}

impl Claims<'_> {
    /// Claims a field that has one owner.
    pub(crate) fn whole(&mut self, field: Field) -> Result<(), MergeError> {
        self.claim(field, None)
    }

    /// Claims those of the fields that are `true`, in their order.
    pub(crate) fn each<const N: usize>(
        &mut self,
        fields: [(bool, Field); N],
    ) -> Result<(), MergeError> {
        fields
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .try_for_each(|(_, field)| self.whole(field))
    }

    /// Claims one key of a field that has an owner per key.
    pub(crate) fn keyed(&mut self, field: Field, key: &str) -> Result<(), MergeError> {
        self.claim(field, Some(key))
    }

    /// Records the removal of a key: if a plugin set it, the claim passes to the plugin that
    /// removes it.
    pub(crate) fn pass_on(&mut self, field: Field, key: &str) {
        let claim = claim_key(field, Some(key));
        if let Some(Owner::Set(_)) = self.ledger.get(&claim) {
            self.put(claim, Owner::Cleared(self.plugin.clone()));
        }
    }

    /// Records the removal of a whole field: only this plugin may set it afterwards.
    pub(crate) fn clear(&mut self, field: Field) {
        self.put(claim_key(field, None), Owner::Cleared(self.plugin.clone()));
    }

    /// Records a contribution to a field that several plugins add to.
    pub(crate) fn contribute(&mut self, field: Field) {
        let claim = claim_key(field, None);
        let mut plugins = match self.ledger.get(&claim) {
            Some(Owner::Shared(plugins)) => plugins.clone(),
            _ => Vec::new(),
        };
        plugins.push(self.plugin.clone());
        self.put(claim, Owner::Shared(plugins));
    }

    fn claim(&mut self, field: Field, key: Option<&str>) -> Result<(), MergeError> {
        let claim = claim_key(field, key);
        let other = match self.ledger.get(&claim) {
            Some(Owner::Set(other)) => Some(other),
            Some(Owner::Cleared(other)) if *other != self.plugin => Some(other),
            Some(Owner::Shared(others)) => others.last(),
            _ => None,
        };
        if let Some(owner) = other {
            return Err(MergeError::Conflict {
                plugin: PluginId::clone(&self.plugin),
                owner: PluginId::clone(owner),
                field,
                key: key.map(str::to_owned),
                container: self.container.to_owned(),
            });
        }
        self.put(claim, Owner::Set(self.plugin.clone()));
        Ok(())
    }

    fn put(&mut self, claim: ClaimKey, owner: Owner) {
        let previous = self.ledger.insert(claim.clone(), owner);
        self.previous.push((claim, previous));
    }
}

fn claim_key(field: Field, key: Option<&str>) -> ClaimKey {
    ClaimKey { field: field.value(), key: key.unwrap_or_default().into() }
}

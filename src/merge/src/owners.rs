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

/// A claimed field, and its key if each key of the field has a separate owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimKey {
    field: i32,
    key: Arc<str>, // empty for a field that is owned as a whole
}

/// Owner of a claim. Plugin ids are shared in an `Arc`, because each entry of a reply may make a
/// claim.
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
    journal: Vec<JournalEntry>,
    /// Last plugin that removed a key, whether or not a plugin had set it.
    removers: BTreeMap<ClaimKey, Arc<PluginId>>,
}

/// Changes of one update or adjustment to the ledger of its container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct JournalEntry {
    container: String,
    /// Each changed claim and its owner before the change, in the order of the changes.
    previous: Vec<(ClaimKey, Option<Owner>)>,
    /// The keys that were removed.
    removed: Vec<(ClaimKey, Arc<PluginId>)>,
}

/// Position in the journal to roll back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

/// Ledger of one container, for claims of one plugin.
pub(crate) struct Claims<'a> {
    ledger: &'a mut Ledger,
    changes: &'a mut JournalEntry,
    plugin: Arc<PluginId>,
    container: &'a str,
}

impl Owners {
    /// Returns the ledger of a container, for claims of `plugin`. The container is looked up once
    /// for all claims, because its id may be as long as a message.
    pub(crate) fn claims<'a>(&'a mut self, plugin: &PluginId, container: &'a str) -> Claims<'a> {
        self.journal.push(JournalEntry { container: container.to_owned(), ..Default::default() });
        let last = self.journal.len() - 1;
        Claims {
            ledger: self.ledgers.entry(container.to_owned()).or_default(),
            changes: &mut self.journal[last],
            plugin: Arc::new(plugin.clone()),
            container,
        }
    }

    /// Returns the current position in the journal, for [`Self::rollback`].
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Withdraws all claims made since `mark`.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        for entry in self.journal.split_off(mark.0).into_iter().rev() {
            let JournalEntry { container, previous, .. } = entry;
            let Some(ledger) = self.ledgers.get_mut(&container) else { continue };
            for (key, previous) in previous.into_iter().rev() {
                match previous {
                    Some(owner) => ledger.insert(key, owner),
                    None => ledger.remove(&key),
                };
            }
            self.remove_empty_ledger(&container);
        }
    }

    /// Withdraws all claims since the last commit.
    pub(crate) fn rollback_all(&mut self) {
        self.rollback(Mark(0));
    }

    /// Makes all claims final.
    pub(crate) fn commit(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        for entry in journal.iter().filter(|entry| entry.previous.is_empty()) {
            self.remove_empty_ledger(&entry.container);
        }
        self.removers.extend(journal.into_iter().flat_map(|entry| entry.removed));
    }

    /// Returns the last plugin that removed each entry, by the number of its field and by its key.
    pub(crate) fn removers(&self) -> BTreeMap<(i32, String), PluginId> {
        let removers = self.removers.iter();
        removers
            .map(|(claim, plugin)| ((claim.field, claim.key.to_string()), PluginId::clone(plugin)))
            .collect()
    }

    /// Removes the ledger of a container without claims.
    fn remove_empty_ledger(&mut self, container: &str) {
        if self.ledgers.get(container).is_some_and(Ledger::is_empty) {
            self.ledgers.remove(container);
        }
    }

    /// Returns the owners in the form of the protocol, for validators. As in upstream NRI, a
    /// leading `-` marks a plugin that removed the value of another plugin and did not set a new
    /// one, and contributors are joined by commas.
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
    pub(crate) fn claim_field(&mut self, field: Field) -> Result<(), MergeError> {
        self.claim(field, None)
    }

    /// Claims the fields that are set (`true`), in the given order.
    pub(crate) fn claim_fields<const N: usize>(
        &mut self,
        fields: [(bool, Field); N],
    ) -> Result<(), MergeError> {
        fields
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .try_for_each(|(_, field)| self.claim_field(field))
    }

    /// Claims one key of a field that has an owner per key.
    pub(crate) fn claim_key(&mut self, field: Field, key: &str) -> Result<(), MergeError> {
        self.claim(field, Some(key))
    }

    /// Records the removal of a key: if an earlier plugin set the key, this plugin takes over the
    /// claim.
    pub(crate) fn take_over(&mut self, field: Field, key: &str) {
        let claim = ClaimKey::new(field, Some(key));
        self.changes.removed.push((claim.clone(), self.plugin.clone()));
        if let Some(Owner::Set(_)) = self.ledger.get(&claim) {
            self.put(claim, Owner::Cleared(self.plugin.clone()));
        }
    }

    /// Records the removal of a whole field: only this plugin may set it afterwards.
    pub(crate) fn clear(&mut self, field: Field) {
        self.put(ClaimKey::new(field, None), Owner::Cleared(self.plugin.clone()));
    }

    /// Records a contribution to a field that several plugins add to.
    pub(crate) fn contribute(&mut self, field: Field) {
        let claim = ClaimKey::new(field, None);
        let mut plugins = match self.ledger.get(&claim) {
            Some(Owner::Shared(plugins)) => plugins.clone(),
            _ => Vec::new(),
        };
        plugins.push(self.plugin.clone());
        self.put(claim, Owner::Shared(plugins));
    }

    fn claim(&mut self, field: Field, key: Option<&str>) -> Result<(), MergeError> {
        let claim = ClaimKey::new(field, key);
        let conflicting_owner = match self.ledger.get(&claim) {
            Some(Owner::Set(owner)) => Some(owner),
            Some(Owner::Cleared(owner)) if *owner != self.plugin => Some(owner),
            Some(Owner::Shared(owners)) => owners.last(),
            _ => None,
        };
        if let Some(owner) = conflicting_owner {
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
        self.changes.previous.push((claim, previous));
    }
}

impl ClaimKey {
    fn new(field: Field, key: Option<&str>) -> Self {
        Self { field: field.value(), key: key.unwrap_or_default().into() }
    }
}

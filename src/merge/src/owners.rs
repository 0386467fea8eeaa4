//! The ledger of claims: which plugin owns which field (and key) of which container.
//!
//! It knows nothing of values; the files of the field groups claim here before they set anything.
//! Every change is journalled, so that a refused reply, or an update whose failure is to be
//! ignored, leaves no claim behind.

use crate::MergeError;
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

/// There may be as many claims as a message has entries: a plugin's name is there once.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// Set by this plugin.
    Set(Arc<PluginId>),
    /// Was set; this plugin removed it and may set it anew, nobody else.
    Cleared(Arc<PluginId>),
    /// All of these contributed.
    Shared(Vec<Arc<PluginId>>),
}

/// The claims on one container.
type Ledger = BTreeMap<ClaimKey, Owner>;

/// All claims of one request, by container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    ledgers: BTreeMap<String, Ledger>,
    journal: Vec<Page>,
}

/// What one update, or one adjustment, changed in the ledger of its container.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    container: String,
    previous: Vec<(ClaimKey, Option<Owner>)>,
}

/// A point of the journal to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

/// The ledger as one plugin and one container see it.
pub(crate) struct Claims<'a> {
    ledger: &'a mut Ledger,
    previous: &'a mut Vec<(ClaimKey, Option<Owner>)>,
    plugin: Arc<PluginId>,
    container: &'a str,
}

impl Owners {
    /// Looks for the container once: its id may be as long as a message, and the claims on it as
    /// many as its entries.
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

    /// Makes all claims so far final.
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

    /// The ledger as the protocol tells it to validators. Upstream's notation: a plugin that
    /// removed what another had set, and did not set it anew, has a leading `-`; contributors are
    /// joined by commas.
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

    /// Claims `wanted` fields, in their order.
    pub(crate) fn each<const N: usize>(
        &mut self,
        wanted: [(bool, Field); N],
    ) -> Result<(), MergeError> {
        wanted
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .try_for_each(|(_, field)| self.whole(field))
    }

    /// Claims one key of a field that has an owner per key.
    pub(crate) fn keyed(&mut self, field: Field, key: &str) -> Result<(), MergeError> {
        self.claim(field, Some(key))
    }

    /// Removal of a key: if a plugin set it, its claim passes to this one.
    pub(crate) fn pass_on(&mut self, field: Field, key: &str) {
        let claim = claim_key(field, Some(key));
        if let Some(Owner::Set(_)) = self.ledger.get(&claim) {
            self.put(claim, Owner::Cleared(self.plugin.clone()));
        }
    }

    /// Removal of a whole field: whoever had it, this plugin alone may set it now.
    pub(crate) fn clear(&mut self, field: Field) {
        self.put(claim_key(field, None), Owner::Cleared(self.plugin.clone()));
    }

    /// Notes a contribution to a field whose contributions add up.
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

//! The changes of a container: by field, with the rule that made each, and as messages of NRI.

use crate::{
    expression::EvaluationError,
    field::{self, FieldValue, Group, Key, MEMORY, SWAP, resource_value, set_resource, set_value},
    file::Stage,
    refusal::Refusal,
    rule::Rule,
    unified::{decides, fields_of, follows, incomparable, texts, with_values},
};
use nri_plugin::{
    Adjustment, SetResources,
    proto::{Container, Hook, Hooks, LinuxDevice, LinuxResources, Mount},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The changes of one container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changes {
    by_key: BTreeMap<Key, Change>,
    /// Hooks that are added, with the rules that add them.
    pub hooks: Vec<(Stage, Hook, String)>,
}

/// The change of a field.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    new: New,
    /// The rule that made it last.
    rule: String,
    /// Whether it replaces what earlier plugins have set.
    overrides: bool,
    /// Whether another rule that sets the field is a conflict: not after a default or a limit.
    is_set: bool,
}

/// A new value of a field.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub(crate) enum New {
    Value(FieldValue),
    Mount(Box<Mount>),
    Device(Box<LinuxDevice>),
    Removed,
}

impl New {
    /// Returns the value for messages and comparisons; `None` for a removal.
    fn value(&self) -> Option<FieldValue> {
        match self {
            Self::Value(value) => Some(value.clone()),
            Self::Mount(mount) => Some(FieldValue::Text(mount.source.clone())),
            Self::Device(device) => {
                Some(FieldValue::Text(format!("{}:{}", device.major, device.minor)))
            }
            Self::Removed => None,
        }
    }
}

/// A change, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Changed {
    pub rule: String,
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Changes {
    /// Returns the value of a field after the changes, which is that of an entry of `unified` if a
    /// rule sets one in its place; `None` if it has none.
    pub(crate) fn value(&self, key: &Key, container: &Container) -> Option<FieldValue> {
        if self.files().any(|file| decides(file, key)) {
            return resource_value(key, &self.resources(container));
        }
        match self.by_key.get(key) {
            Some(change) => change.new.value(),
            None => field::value(key, container),
        }
    }

    /// Whether a field has a value that was requested, in the field or in `unified`.
    pub(crate) fn is_requested(&self, key: &Key, container: &Container) -> bool {
        let has =
            |key: &Key| self.value(key, container).is_some_and(|value| key.is_requested(&value));
        let fields = match key {
            Key::Entry(Group::Unified, file) => fields_of(file).collect(),
            _ => Vec::new(),
        };
        has(key)
            || fields.iter().any(has)
            || incomparable(key, &container.linux.resources.unified).is_some()
    }

    /// Returns the files of the entries of `unified` that change.
    fn files(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().filter_map(|key| match key {
            Key::Entry(Group::Unified, file) => Some(file.as_str()),
            _ => None,
        })
    }

    /// Returns the resources after the changes, without the container's entries of `unified`.
    fn resources(&self, container: &Container) -> LinuxResources {
        let values = self.by_key.iter().filter_map(|(key, change)| match &change.new {
            New::Value(value) => Some((key, value)),
            _ => None,
        });
        with_values(container, values)
    }

    /// Sets a field, unless another rule has set it to something else.
    ///
    /// # Errors
    /// [`Refusal::Conflict`], or [`Refusal::Evaluation`] for a key that no entry can have.
    pub(crate) fn put(
        &mut self,
        rule: &Rule,
        key: Key,
        new: New,
        container: &Container,
    ) -> Result<(), Refusal> {
        if let Key::Entry(group, name) = &key
            && (name.is_empty() || name.starts_with('-'))
        {
            // A leading `-` marks removals in the protocol.
            let error = EvaluationError::Failed(format!("{name:?} cannot be the key of an entry"));
            let (rule, what) = (rule.name.clone(), group.name().to_owned());
            return Err(Refusal::Evaluation { rule, what, error });
        }
        let earlier = self.by_key.get(&key).filter(|change| change.is_set && change.new != new);
        let earlier = earlier.or_else(|| self.set_otherwise(&key, &new, container));
        if let Some(earlier) = earlier.filter(|change| !rule.overrides || change.rule == rule.name)
        {
            let shown = |new: &New| new.value().map_or("nothing".to_owned(), |v| v.to_string());
            return Err(Refusal::Conflict {
                rule: rule.name.clone(),
                other: earlier.rule.clone(),
                field: key.to_string(),
                value: shown(&new),
                before: shown(&earlier.new),
            });
        }
        let is_there = match &new {
            New::Removed => {
                field::value(&key, container).is_none() && !self.by_key.contains_key(&key)
            }
            New::Value(value) => {
                !self.by_key.contains_key(&key)
                    && field::value(&key, container).as_ref() == Some(value)
            }
            New::Mount(_) | New::Device(_) => false,
        };
        // What is there already stays the container's own, and no other plugin conflicts with it.
        if !is_there {
            self.insert(rule, key, new, true, container);
        }
        Ok(())
    }

    /// Returns the change by which a rule has set to something else what `key` sets: a field, or
    /// the entry of `unified` for its file.
    fn set_otherwise(&self, key: &Key, new: &New, container: &Container) -> Option<&Change> {
        let New::Value(value) = new else { return None };
        let set = |key: &Key| self.by_key.get(key).filter(|change| change.is_set);
        match key {
            Key::Entry(Group::Unified, file) => {
                let with = with_values(container, [(key, value)].into_iter());
                fields_of(file).find_map(|field| {
                    let differs = self.value(&field, container) != resource_value(&field, &with);
                    set(&field).filter(|_| differs)
                })
            }
            _ => self.files().filter(|file| fields_of(file).any(|own| own == *key)).find_map(
                |file| {
                    let differs = self.value(key, container).as_ref() != Some(value);
                    set(&Key::Entry(Group::Unified, file.to_owned())).filter(|_| differs)
                },
            ),
        }
    }

    /// Sets a field to a default or a limit, whoever has set it.
    pub(crate) fn replace(&mut self, rule: &Rule, key: Key, new: New, container: &Container) {
        let is_set = self.by_key.get(&key).is_some_and(|change| change.is_set);
        self.insert(rule, key, new, is_set, container);
    }

    /// Sets entries of `unified` to the texts of an updated container, where they differ from those
    /// before.
    pub(crate) fn restate(
        &mut self,
        rule: &Rule,
        key: &Key,
        before: &HashMap<String, String>,
        updated: &Container,
    ) {
        for (file, old) in before.iter().filter(|(file, _)| follows(file, key)) {
            let entry = Key::Entry(Group::Unified, file.clone());
            let current = updated.linux.resources.unified.get(file);
            if let Some(text) = current.filter(|text| *text != old)
                && !self.by_key.contains_key(&entry)
            {
                self.insert_one(rule, entry, New::Value(FieldValue::Text(text.clone())), false);
            }
        }
    }

    fn insert(&mut self, rule: &Rule, key: Key, new: New, is_set: bool, container: &Container) {
        let restated = match &new {
            New::Value(value) => self.restated(&key, value, container),
            _ => Vec::new(),
        };
        self.insert_one(rule, key, new, is_set);
        for (key, value) in restated {
            let is_set = self.by_key.get(&key).is_some_and(|change| change.is_set);
            self.insert_one(rule, key, New::Value(value), is_set);
        }
    }

    /// Returns what else has to change with a field, so that both ways to set it say the same.
    fn restated(&self, key: &Key, value: &FieldValue, of: &Container) -> Vec<(Key, FieldValue)> {
        if let Key::Entry(Group::Unified, file) = key {
            let with = with_values(of, [(key, value)].into_iter());
            let changed = fields_of(file).filter(|field| self.by_key.contains_key(field));
            let value_of = |field: Key| Some((resource_value(&field, &with)?, field));
            return changed.filter_map(value_of).map(|(value, field)| (field, value)).collect();
        }
        let is_set = |file: &str| {
            let entry = Key::Entry(Group::Unified, file.to_owned());
            self.by_key.get(&entry).is_some_and(|change| change.is_set)
        };
        let is_own = |file: &str| fields_of(file).any(|own| own == *key);
        let follows = |file: &&str| is_own(file) || follows(file, key) && !is_set(file);
        let names = of.linux.resources.unified.keys().map(String::as_str);
        let files: BTreeSet<_> = names.chain(self.files()).filter(follows).collect();
        if files.is_empty() {
            return Vec::new();
        }
        let mut resources = self.resources(of);
        set_value(&mut resources, key, value);
        // As runtimes of NRI do where a plugin sets the limit of memory alone.
        if *key == MEMORY && !self.by_key.contains_key(&SWAP) {
            set_value(&mut resources, &SWAP, value);
        }
        let texts = texts(&resources);
        let mut restated = Vec::new();
        for file in files {
            let text = texts.get(file).cloned().map(FieldValue::Text);
            restated.extend(text.map(|text| (Key::Entry(Group::Unified, file.to_owned()), text)));
            // Quota and period are in one file.
            let others = fields_of(file).filter(|other| other != key && *other != SWAP);
            for other in others.filter(|other| !self.by_key.contains_key(other)) {
                let value = resource_value(&other, &resources);
                restated.extend(value.map(|value| (other, value)));
            }
        }
        restated
    }

    fn insert_one(&mut self, rule: &Rule, key: Key, new: New, is_set: bool) {
        let (rule, overrides) = (rule.name.clone(), rule.overrides);
        self.by_key.insert(key, Change { new, rule, overrides, is_set });
    }

    /// Returns the changes that `earlier` does not have.
    pub(crate) fn since(&self, earlier: &Self, container: &Container) -> Vec<Changed> {
        let is_new = |key: &Key, change: &Change| earlier.by_key.get(key) != Some(change);
        let fields = self.by_key.iter().filter(|(key, change)| is_new(key, change));
        let changed = fields.map(|(key, change)| Changed {
            rule: change.rule.clone(),
            field: key.to_string(),
            before: earlier.value(key, container).map(|value| value.to_string()),
            after: change.new.value().map(|value| value.to_string()),
        });
        let hooks = self.hooks.iter().skip(earlier.hooks.len()).map(|(_, hook, rule)| Changed {
            rule: rule.clone(),
            field: "hooks".to_owned(),
            before: None,
            after: Some(hook.path.clone()),
        });
        changed.chain(hooks).collect()
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.hooks.is_empty()
    }

    /// Sets the resources of an update.
    pub(crate) fn update<R: SetResources>(&self, update: &mut R) {
        for (key, change) in &self.by_key {
            if let New::Value(value) = &change.new {
                set_resource(update, key, value);
            }
        }
    }

    /// Returns the adjustment.
    pub(crate) fn adjustment(&self) -> Adjustment {
        let mut adjustment = Adjustment::new();
        for (key, change) in &self.by_key {
            change.add_to(key, &mut adjustment);
        }
        let mut hooks = Hooks::new();
        for (stage, hook, _) in &self.hooks {
            let all = match stage {
                Stage::Prestart => &mut hooks.prestart,
                Stage::CreateRuntime => &mut hooks.create_runtime,
                Stage::CreateContainer => &mut hooks.create_container,
                Stage::StartContainer => &mut hooks.start_container,
                Stage::Poststart => &mut hooks.poststart,
                Stage::Poststop => &mut hooks.poststop,
            };
            all.push(hook.clone());
        }
        if !self.hooks.is_empty() {
            adjustment.add_hooks(hooks);
        }
        adjustment
    }
}

impl Change {
    fn add_to(&self, key: &Key, adjustment: &mut Adjustment) {
        match (&self.new, key) {
            (New::Value(FieldValue::Number(score)), Key::Field(row))
                if row.name == "oom_score_adj" =>
            {
                adjustment.set_oom_score_adj(*score);
            }
            (New::Value(value), Key::Entry(group, name)) => {
                self.add_entry(*group, name, value, adjustment);
            }
            (New::Value(value), Key::Field(_)) => _ = set_resource(adjustment, key, value),
            (New::Mount(mount), _) => {
                let mount = (**mount).clone();
                if self.overrides {
                    adjustment.override_mount(mount)
                } else {
                    adjustment.add_mount(mount)
                };
            }
            (New::Device(device), _) => {
                let device = (**device).clone();
                if self.overrides {
                    adjustment.override_device(device)
                } else {
                    adjustment.add_device(device)
                };
            }
            (New::Removed, Key::Entry(group, name)) => match group {
                Group::Env => _ = adjustment.remove_env(name),
                Group::Sysctl => _ = adjustment.remove_sysctl(name),
                Group::Annotations => _ = adjustment.remove_annotation(name),
                Group::Mounts => _ = adjustment.remove_mount(name),
                Group::Devices => _ = adjustment.remove_device(name),
                // The file has no way to write it.
                Group::Hugepages | Group::Unified | Group::Rlimits | Group::Cdi => {}
            },
            (New::Removed, Key::Field(_)) => {}
        }
    }

    fn add_entry(&self, group: Group, name: &str, value: &FieldValue, to: &mut Adjustment) {
        match (group, value) {
            (Group::Env, FieldValue::Text(text)) if self.overrides => {
                to.override_env(name, text);
            }
            (Group::Env, FieldValue::Text(text)) => _ = to.add_env(name, text),
            (Group::Sysctl, FieldValue::Text(text)) if self.overrides => {
                to.override_sysctl(name, text);
            }
            (Group::Sysctl, FieldValue::Text(text)) => _ = to.set_sysctl(name, text),
            (Group::Annotations, FieldValue::Text(text)) if self.overrides => {
                to.override_annotation(name, text);
            }
            (Group::Annotations, FieldValue::Text(text)) => _ = to.add_annotation(name, text),
            (Group::Rlimits, FieldValue::Rlimit(soft, hard)) => {
                to.add_rlimit(name, *hard, *soft);
            }
            (Group::Cdi, _) => _ = to.add_cdi_device(name),
            _ => _ = set_resource(to, &Key::Entry(group, name.to_owned()), value),
        }
    }
}

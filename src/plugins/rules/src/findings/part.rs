//! The expressions of a rule, with their places.

use super::{
    lookups::{DEVICE, MOUNT, NAMED},
    path::{Declared, Variable},
    types::Type,
};
use crate::{
    expression::{ENTRY, Expression},
    field::Group,
    rule::{Action, Place, Rule},
    template::Template,
};

/// The name of the condition of a rule.
pub(super) const MATCH: &str = "match";

/// An expression of a rule.
pub(super) struct Part<'a> {
    pub place: Place,
    /// The member of the rule, or the field that it is the value of, as errors name it.
    pub name: String,
    pub expression: &'a Expression,
    /// The members of [`ENTRY`].
    pub entry: Option<&'static [&'static str]>,
}

impl Part<'_> {
    /// Returns the type of [`ENTRY`].
    pub(super) fn entry_type(&self) -> Type {
        self.entry.map_or(Type::Unknown, Type::of_entry)
    }
}

/// Returns the condition of a rule.
pub(super) fn condition(rule: &Rule) -> Option<Part<'_>> {
    let expression = rule.condition.as_ref()?;
    let (place, name) = (rule.condition_place, MATCH.to_owned());
    Some(Part { place, name, expression, entry: None })
}

/// Returns the expressions of a rule other than its condition.
pub(super) fn parts(rule: &Rule) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for step in &rule.steps {
        let (name, entry) = match &step.action {
            Action::Strip(group, _) => {
                let members = match group {
                    Group::Mounts => MOUNT,
                    Group::Devices => DEVICE,
                    _ => NAMED,
                };
                (format!("strip.{}", group.name()), Some(members))
            }
            Action::Default(key, _)
            | Action::Set(key, _)
            | Action::AtLeast(key, _)
            | Action::AtMost(key, _)
            | Action::Remove(key) => (key.to_string(), None),
            Action::Mount(_) => ("add.mounts".to_owned(), None),
            Action::Device(_) => ("add.devices".to_owned(), None),
            Action::Cdi(_) => ("add.cdi".to_owned(), None),
            Action::Hook(..) => ("add.hooks".to_owned(), None),
        };
        for expression in step.action.expressions() {
            parts.push(Part { place: step.place, name: name.clone(), expression, entry });
        }
    }
    for expression in rule.refuse.iter().flat_map(Template::expressions) {
        let (place, name) = (rule.refuse_place, "refuse".to_owned());
        parts.push(Part { place, name, expression, entry: None });
    }
    parts
}

/// Returns the variable of the entry that an expression chooses, if it does.
pub(super) fn declared(part: &Part<'_>) -> Declared<'static> {
    match part.entry {
        Some(members) => Declared::default().with(Variable { name: ENTRY, members: Some(members) }),
        None => Declared::default(),
    }
}

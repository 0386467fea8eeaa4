//! Rules as they are evaluated: expressions without syntax errors, values with the right units.

use crate::{
    expression::Expression,
    field::{FieldValue, Group, Key},
    file::{HookText, Stage},
    prepared::Patterns,
    quantity::Unit,
    template::Template,
};
use nri_plugin::proto::Hook;
use std::{collections::BTreeSet, sync::Arc};

/// The rules of a file.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// The variables that their expressions name.
    pub variables: BTreeSet<String>,
    /// The constant patterns of their expressions.
    pub patterns: Arc<Patterns>,
}

impl RuleSet {
    /// Returns the first rule that refuses containers.
    pub(crate) fn refusing(&self) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.refuse.is_some() && !rule.observe)
    }

    /// Whether there is a rule that refuses containers.
    pub(crate) fn refuses(&self) -> bool {
        self.refusing().is_some()
    }
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Name in messages.
    pub name: String,
    /// Where it is in the file.
    pub place: Place,
    /// The containers to which it applies; `None`: all.
    pub condition: Option<Expression>,
    /// Where the condition is.
    pub condition_place: Place,
    /// Whether its values replace those of earlier rules.
    pub overrides: bool,
    /// Whether it changes nothing.
    pub observe: bool,
    /// What it does, in this order.
    pub steps: Vec<Step>,
    /// The message with which it refuses a container, after the steps.
    pub refuse: Option<Template>,
    /// Where the message is.
    pub refuse_place: Place,
}

/// A place in the file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs)]
pub(crate) struct Place {
    pub line: usize,
    pub column: usize,
}

/// What a rule does with one thing.
#[derive(Debug)]
pub(crate) struct Step {
    /// Where it is in the file.
    pub place: Place,
    /// What it does.
    pub action: Action,
}

/// See [`Step`].
#[derive(Debug)]
pub(crate) enum Action {
    /// Removes the entries of a group for which the condition holds.
    Strip(Group, Expression),
    /// Removes an entry.
    Remove(Key),
    /// Sets a value where there is none.
    Default(Key, Amount),
    /// Sets a value.
    Set(Key, Amount),
    /// Raises a value.
    AtLeast(Key, Amount),
    /// Lowers a value.
    AtMost(Key, Amount),
    /// Adds a mount.
    Mount(MountTemplate),
    /// Adds a device node of the host.
    Device(Template),
    /// Adds CDI devices.
    Cdi(Template),
    /// Adds an OCI hook.
    Hook(Stage, Box<Hook>),
}

/// A value in the file: of a field, with its unit.
#[derive(Debug)]
pub(crate) enum Amount {
    /// A value that is the same for all containers.
    Constant(FieldValue),
    /// A value of an expression.
    Computed(Template, Option<Unit>),
    /// CPUs, in millionths, which give the quota for the period of the container.
    Cpus(i64),
    /// As `Cpus`, from an expression.
    ComputedCpus(Template),
    /// Soft and hard limit from expressions.
    Rlimit(Template, Template),
}

/// A mount with expressions.
#[derive(Debug)]
#[allow(missing_docs)]
pub(crate) struct MountTemplate {
    pub source: Template,
    pub destination: Template,
    pub kind: String,
    pub options: Vec<String>,
}

impl Rule {
    /// Whether this rule applies to each container that the other one applies to, as far as that
    /// is known without a container.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.condition, &other.condition) {
            (None, _) => true,
            (Some(own), Some(others)) => own.source().trim() == others.source().trim(),
            (Some(_), None) => false,
        }
    }
}

impl Action {
    /// Returns the expressions.
    pub(crate) fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Strip(_, condition) => vec![condition],
            Self::Default(_, amount)
            | Self::Set(_, amount)
            | Self::AtLeast(_, amount)
            | Self::AtMost(_, amount) => amount.expressions(),
            Self::Mount(mount) => {
                mount.source.expressions().chain(mount.destination.expressions()).collect()
            }
            Self::Device(template) | Self::Cdi(template) => template.expressions().collect(),
            Self::Remove(_) | Self::Hook(..) => Vec::new(),
        }
    }
}

impl Amount {
    fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Constant(_) | Self::Cpus(_) => Vec::new(),
            Self::Computed(template, _) | Self::ComputedCpus(template) => {
                template.expressions().collect()
            }
            Self::Rlimit(soft, hard) => soft.expressions().chain(hard.expressions()).collect(),
        }
    }
}

/// Returns the message of a hook.
pub(crate) fn hook(text: &HookText) -> Hook {
    let timeout = text.timeout.map(i64::from);
    Hook {
        path: text.path.clone(),
        args: text.args.clone(),
        env: text.env.clone(),
        timeout: nri_api::opt(timeout),
        ..Default::default()
    }
}

//! From the tables of a file to rules: names of fields, units, expressions.

use crate::{
    expression::{Expression, ExpressionError},
    field::{FieldValue, Group, Key, PERIOD, QUOTA, field},
    file::{Limits, Named, Placed, Rlimit, RuleText, Scalar, Settings},
    hint,
    mistake::{LoadError, Mistake, at},
    possible::{entry, impossible},
    prepared::Patterns,
    quantity::{QuantityError, Unit},
    rule::{Action, Amount, MountTemplate, Place, Rule, RuleSet, Step, hook},
    template::Template,
};
use nri_api::entry_name;
use serde_saphyr::Spanned;
use std::{collections::BTreeMap, sync::Arc};

/// Reads the rules of a file with this content.
///
/// # Errors
/// The first mistake.
pub(crate) fn compile(rules: &[RuleText], content: &str) -> Result<RuleSet, LoadError> {
    let mut set = RuleSet::default();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut patterns = Patterns::new();
    for text in rules {
        let place = Place::from(text.name.referenced);
        if let Some(line) = names.insert(&text.name.value, place.line) {
            return Err(at(place, Mistake::Name { rule: text.name.value.clone(), line }));
        }
        let rule = RuleCompiler { name: &text.name.value, content }.rule(text, place)?;
        let own =
            rule.condition.iter().chain(rule.steps.iter().flat_map(|s| s.action.expressions()));
        let all = own.chain(rule.refuse.iter().flat_map(Template::expressions));
        for expression in all {
            set.variables.extend(expression.variables().iter().cloned());
            patterns.extend(expression.patterns().clone());
        }
        set.rules.push(rule);
    }
    set.patterns = Arc::new(patterns);
    Ok(set)
}

/// Reads one rule; its name is for errors.
struct RuleCompiler<'a> {
    name: &'a str,
    /// The text of the file.
    content: &'a str,
}

/// How a value is applied.
type Kind = fn(Key, Amount) -> Action;

impl RuleCompiler<'_> {
    fn rule(&self, text: &RuleText, place: Place) -> Result<Rule, LoadError> {
        let condition = text.condition.as_ref().map(|c| self.expression(c, false)).transpose()?;
        let mut steps = Vec::new();
        self.strip(text, &mut steps)?;
        self.remove(text, place, &mut steps);
        self.settings(&text.defaults, Action::Default, &mut steps)?;
        self.settings(&text.set, Action::Set, &mut steps)?;
        self.limits(&text.at_least, Action::AtLeast, &mut steps)?;
        self.limits(&text.at_most, Action::AtMost, &mut steps)?;
        self.additions(text, &mut steps)?;
        let message = |text: &Placed| self.template(self.verbatim(text).as_ref().unwrap_or(text));
        let refuse = text.refuse.as_ref().map(message).transpose()?;
        if steps.is_empty() && refuse.is_none() && !text.observe {
            return Err(at(place, Mistake::NoAction(self.name.to_owned())));
        }
        Ok(Rule {
            name: self.name.to_owned(),
            place,
            condition,
            condition_place: text.condition.as_ref().map_or(place, |c| c.referenced.into()),
            overrides: text.overrides,
            observe: text.observe,
            steps,
            refuse,
            refuse_place: text.refuse.as_ref().map_or(place, |refuse| refuse.referenced.into()),
        })
    }

    fn strip(&self, text: &RuleText, steps: &mut Vec<Step>) -> Result<(), LoadError> {
        for (group, condition) in [
            (Group::Env, &text.strip.env),
            (Group::Mounts, &text.strip.mounts),
            (Group::Devices, &text.strip.devices),
            (Group::Sysctl, &text.strip.sysctl),
            (Group::Annotations, &text.strip.annotations),
        ] {
            let Some(condition) = condition else { continue };
            let action = Action::Strip(group, self.expression(condition, true)?);
            steps.push(Step { place: condition.referenced.into(), action });
        }
        Ok(())
    }

    fn remove(&self, text: &RuleText, place: Place, steps: &mut Vec<Step>) {
        for (group, keys) in [
            (Group::Env, &text.remove.env),
            (Group::Mounts, &text.remove.mounts),
            (Group::Devices, &text.remove.devices),
            (Group::Sysctl, &text.remove.sysctl),
            (Group::Annotations, &text.remove.annotations),
        ] {
            let actions = keys.iter().map(|key| Action::Remove(Key::Entry(group, key.clone())));
            steps.extend(actions.map(|action| Step { place, action }));
        }
    }

    fn settings(
        &self,
        settings: &Settings,
        kind: Kind,
        steps: &mut Vec<Step>,
    ) -> Result<(), LoadError> {
        self.fields(settings.fields(), kind, steps)?;
        for (group, values) in [
            (Group::Hugepages, &settings.hugepages),
            (Group::Unified, &settings.unified),
            (Group::Env, &settings.env),
            (Group::Sysctl, &settings.sysctl),
            (Group::Annotations, &settings.annotations),
        ] {
            self.entries(group, values, kind, steps)?;
        }
        self.rlimits(&settings.rlimits, kind, steps)
    }

    fn limits(&self, limits: &Limits, kind: Kind, steps: &mut Vec<Step>) -> Result<(), LoadError> {
        self.fields(limits.fields(), kind, steps)?;
        self.entries(Group::Hugepages, &limits.hugepages, kind, steps)?;
        self.rlimits(&limits.rlimits, kind, steps)
    }

    fn fields<'f>(
        &self,
        fields: impl Iterator<Item = (&'static str, &'f Placed)>,
        kind: Kind,
        steps: &mut Vec<Step>,
    ) -> Result<(), LoadError> {
        let mut fields: Vec<_> = fields.collect();
        // CPUs are a quota of the period that the same rule sets.
        fields.sort_by_key(|(name, _)| field(name) != Some(PERIOD));
        for (name, value) in fields {
            let (key, amount) = match field(name) {
                // The one name that is not a field's.
                None => (QUOTA, self.cpus(value)?),
                Some(Key::Field(row)) => {
                    (Key::Field(row), self.amount(&Key::Field(row), row.unit, value)?)
                }
                Some(entry) => (entry.clone(), self.amount(&entry, None, value)?),
            };
            steps.push(Step { place: value.referenced.into(), action: kind(key, amount) });
        }
        Ok(())
    }

    fn entries(
        &self,
        group: Group,
        values: &Named,
        kind: Kind,
        steps: &mut Vec<Step>,
    ) -> Result<(), LoadError> {
        for (name, value) in values {
            let key = Key::Entry(group, name.clone());
            let place = value.referenced.into();
            if name.is_empty() || name.starts_with('-') {
                return Err(self.value(
                    place,
                    &key,
                    "no name of an entry: use remove to remove one",
                ));
            }
            let verbatim = self.verbatim(value).filter(|_| group.unit().is_none());
            let value = verbatim.as_ref().unwrap_or(value);
            let amount = self.amount(&key, group.unit(), value)?;
            steps.push(Step { place, action: kind(key, amount) });
        }
        Ok(())
    }

    /// Returns a number as it is written, for values that are texts: `3.10` is not `3.1`.
    fn verbatim(&self, value: &Placed) -> Option<Placed> {
        let span = value.defined.span();
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
        let written = self.content.get(start..end)?;
        let is_number = !matches!(value.value, Scalar::Text(_));
        is_number.then(|| Spanned { value: Scalar::Text(written.to_owned()), ..value.clone() })
    }

    fn rlimits(
        &self,
        limits: &BTreeMap<String, Spanned<Rlimit>>,
        kind: Kind,
        steps: &mut Vec<Step>,
    ) -> Result<(), LoadError> {
        for (name, limit) in limits {
            let upper = name.to_ascii_uppercase();
            let full = if upper.starts_with("RLIMIT_") { upper } else { format!("RLIMIT_{upper}") };
            let key = Key::Entry(Group::Rlimits, full);
            let (soft, hard) = match &limit.value {
                Rlimit::Both(both) => (both, both),
                Rlimit::Each(pair) => (&pair.soft, &pair.hard),
            };
            let place = limit.referenced.into();
            let amount = self.rlimit(place, &key, soft, hard)?;
            steps.push(Step { place, action: kind(key, amount) });
        }
        Ok(())
    }

    fn rlimit(
        &self,
        place: Place,
        key: &Key,
        soft: &Scalar,
        hard: &Scalar,
    ) -> Result<Amount, LoadError> {
        let template = |value: &Scalar| {
            Template::parse(&value.text()).map_err(|error| self.of_expression(place, error))
        };
        let templates = [template(soft)?, template(hard)?];
        let constants = templates.each_ref().map(Template::constant);
        let [Some(soft), Some(hard)] = constants else {
            let [soft, hard] = templates;
            return Ok(Amount::Rlimit(soft, hard));
        };
        let limit = |text| rlimit_of(text).map_err(|error| self.of_amount(place, key, error));
        let (soft, hard) = (limit(soft)?, limit(hard)?);
        if let Some(reason) = impossible(key, &FieldValue::Rlimit(soft, hard)) {
            return Err(self.value(place, key, reason));
        }
        if soft > hard {
            return Err(self.value(place, key, "the soft limit is above the hard limit"));
        }
        Ok(Amount::Constant(FieldValue::Rlimit(soft, hard)))
    }

    fn additions(&self, text: &RuleText, steps: &mut Vec<Step>) -> Result<(), LoadError> {
        let add = &text.add;
        self.entries(Group::Env, &add.env, Action::Set, steps)?;
        self.entries(Group::Sysctl, &add.sysctl, Action::Set, steps)?;
        self.entries(Group::Annotations, &add.annotations, Action::Set, steps)?;
        self.rlimits(&add.rlimits, Action::Set, steps)?;
        for mount in &add.mounts {
            let place = mount.referenced.into();
            let template = |text: &str| {
                Template::parse(text).map_err(|error| self.of_expression(place, error))
            };
            let value = &mount.value;
            let destination = template(&value.destination)?;
            self.entry(place, Group::Mounts, &destination)?;
            let options = || vec!["rbind".to_owned(), "ro".to_owned()];
            let action = Action::Mount(MountTemplate {
                source: template(&value.source)?,
                destination,
                kind: value.kind.clone().unwrap_or_else(|| "bind".to_owned()),
                options: value.options.clone().unwrap_or_else(options),
            });
            steps.push(Step { place, action });
        }
        for device in &add.devices {
            let place = device.referenced.into();
            let path = Template::parse(&device.value.path)
                .map_err(|error| self.of_expression(place, error))?;
            self.entry(place, Group::Devices, &path)?;
            steps.push(Step { place, action: Action::Device(path) });
        }
        for device in &add.cdi {
            let place = device.referenced.into();
            let name =
                Template::parse(&device.value).map_err(|error| self.of_expression(place, error))?;
            self.entry(place, Group::Cdi, &name)?;
            steps.push(Step { place, action: Action::Cdi(name) });
        }
        for text in &add.hooks {
            let place = text.referenced.into();
            if !text.value.path.starts_with('/') {
                let field = entry_name("hooks", &text.value.path);
                return Err(self.wrong(place, field, "no absolute path"));
            }
            let action = Action::Hook(text.value.stage, Box::new(hook(&text.value)));
            steps.push(Step { place, action });
        }
        Ok(())
    }

    fn amount(&self, key: &Key, unit: Option<Unit>, value: &Placed) -> Result<Amount, LoadError> {
        let (place, template) = (value.referenced.into(), self.template(value)?);
        let Some(text) = template.constant() else { return Ok(Amount::Computed(template, unit)) };
        let value = value_of(text, unit).map_err(|error| self.of_amount(place, key, error))?;
        match impossible(key, &value) {
            Some(reason) => Err(self.value(place, key, reason)),
            None => Ok(Amount::Constant(value)),
        }
    }

    fn cpus(&self, value: &Placed) -> Result<Amount, LoadError> {
        let (place, template) = (value.referenced.into(), self.template(value)?);
        let Some(text) = template.constant() else { return Ok(Amount::ComputedCpus(template)) };
        let cpus = Unit::Cpus.parse(text).map_err(|error| self.of_amount(place, &QUOTA, error))?;
        if cpus == 0 {
            return Err(self.value(place, &QUOTA, "of 0 CPUs: expected more, or unlimited"));
        }
        Ok(Amount::Cpus(cpus))
    }

    fn template(&self, value: &Placed) -> Result<Template, LoadError> {
        Template::parse(&value.value.text())
            .map_err(|error| self.of_expression(value.referenced.into(), error))
    }

    fn expression(&self, text: &Spanned<String>, entry: bool) -> Result<Expression, LoadError> {
        let parse = if entry { Expression::of_entry } else { Expression::parse };
        let parsed = parse(&text.value).and_then(Expression::condition);
        let place = text.referenced.into();
        match self.property(text) {
            // YAML leaves it out of the text.
            Some(tag) if tag.starts_with('!') => Err(self.of_property(place, tag, "a tag")),
            Some(anchor) if parsed.is_err() => Err(self.of_property(place, anchor, "an anchor")),
            _ => parsed.map_err(|error| self.of_expression(place, error)),
        }
    }

    /// Returns the tag or the anchor before a value in its line.
    fn property(&self, value: &Spanned<String>) -> Option<&str> {
        let start = usize::try_from(value.defined.span().byte_offset()?).ok()?;
        let line = self.content.get(..start)?.lines().next_back()?;
        line.split_whitespace().next_back().filter(|word| word.starts_with(['!', '&']))
    }

    fn of_property(&self, place: Place, property: &str, what: &str) -> LoadError {
        let quoted = hint::quoted(self.content, place.line);
        let cure = quoted.map_or_else(
            || "write the text in single quotes".to_owned(),
            |line| format!("write {line}"),
        );
        at(place, Mistake::Form(format!("`{property}` is {what} here: {cure}")))
    }

    fn of_expression(&self, place: Place, error: ExpressionError) -> LoadError {
        at(place, Mistake::Expression { rule: self.name.to_owned(), error })
    }

    fn of_amount(&self, place: Place, key: &Key, error: QuantityError) -> LoadError {
        let (rule, field) = (self.name.to_owned(), key.to_string());
        at(place, Mistake::Amount { rule, field, error })
    }

    /// Fails if the name or path of an entry, without expressions, cannot be one.
    fn entry(&self, place: Place, group: Group, name: &Template) -> Result<(), LoadError> {
        let Some(name) = name.constant() else { return Ok(()) };
        let key = Key::Entry(group, name.to_owned());
        entry(group, name).map_or(Ok(()), |reason| Err(self.value(place, &key, reason)))
    }

    fn value(&self, place: Place, key: &Key, reason: &'static str) -> LoadError {
        self.wrong(place, key.to_string(), reason)
    }

    fn wrong(&self, place: Place, field: String, reason: &'static str) -> LoadError {
        at(place, Mistake::Value { rule: self.name.to_owned(), field, reason })
    }
}

/// Reads a value in a unit, or a text.
///
/// # Errors
/// It is no amount.
pub(crate) fn value_of(text: &str, unit: Option<Unit>) -> Result<FieldValue, QuantityError> {
    match unit {
        Some(unit) => unit.parse(text).map(FieldValue::Number),
        None => Ok(FieldValue::Text(text.to_owned())),
    }
}

/// Reads a resource limit; `unlimited` is the largest number.
///
/// # Errors
/// It is no amount, or below zero.
pub(crate) fn rlimit_of(text: &str) -> Result<u64, QuantityError> {
    if text.trim() == "unlimited" {
        return Ok(u64::MAX);
    }
    let number = Unit::Bytes.parse(text)?;
    u64::try_from(number).map_err(|_| QuantityError::Invalid {
        text: text.to_owned(),
        expected: "a number from 0 on, or unlimited",
    })
}

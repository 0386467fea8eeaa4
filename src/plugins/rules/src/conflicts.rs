//! Conflicts between rules that are seen without a container: two rules that set a field of the
//! same containers, and limits that cannot both hold.

use crate::{
    field::{FieldValue, Key},
    mistake::{LoadError, Mistake, at},
    rule::{Action, Amount, Place, Rule},
};
use std::collections::BTreeMap;

/// Checks all rules but those that only observe.
///
/// # Errors
/// The first conflict.
pub(crate) fn check(rules: &[Rule]) -> Result<(), LoadError> {
    check_values(rules)?;
    check_limits(rules)
}

/// Fields that rules set, by key: the rule and its value.
type ByKey<'a, V> = BTreeMap<&'a Key, Vec<(&'a Rule, V)>>;

fn check_values(rules: &[Rule]) -> Result<(), LoadError> {
    let mut earlier: ByKey<'_, &Amount> = BTreeMap::new();
    for (rule, place, action) in steps(rules) {
        let Action::Set(key, amount) = action else { continue };
        let same_key = earlier.entry(key).or_default();
        let clash = same_key.iter().find(|(other, value)| {
            let is_allowed = rule.overrides && !std::ptr::eq(*other, rule);
            !is_allowed && (other.covers(rule) || rule.covers(other)) && !is_same(value, amount)
        });
        if let Some((other, _)) = clash {
            let [rule, other_name] = [rule, other].map(|rule| rule.name.clone());
            let line = other.place.line;
            let field = key.to_string();
            return Err(at(place, Mistake::Conflict { rule, field, other: other_name, line }));
        }
        same_key.push((rule, amount));
    }
    Ok(())
}

fn check_limits(rules: &[Rule]) -> Result<(), LoadError> {
    let mut most: ByKey<'_, &Amount> = BTreeMap::new();
    for (rule, _, action) in steps(rules) {
        if let Action::AtMost(key, amount) = action {
            most.entry(key).or_default().push((rule, amount));
        }
    }
    for (rule, place, action) in steps(rules) {
        let Action::AtLeast(key, least) = action else { continue };
        let others = most.get(key).into_iter().flatten();
        let clash = others.into_iter().find(|(other, most)| {
            (other.covers(rule) || rule.covers(other)) && is_above(least, most)
        });
        if let Some((other, _)) = clash {
            let [rule, other_name] = [rule, other].map(|rule| rule.name.clone());
            let (field, line) = (key.to_string(), other.place.line);
            return Err(at(place, Mistake::Bounds { rule, field, other: other_name, line }));
        }
    }
    Ok(())
}

fn steps(rules: &[Rule]) -> impl Iterator<Item = (&Rule, Place, &Action)> {
    let active = rules.iter().filter(|rule| !rule.observe);
    active.flat_map(|rule| rule.steps.iter().map(move |step| (rule, step.place, &step.action)))
}

/// Whether two values are the same for all containers.
fn is_same(one: &Amount, other: &Amount) -> bool {
    match (one, other) {
        (Amount::Constant(one), Amount::Constant(other)) => one == other,
        (Amount::Cpus(one), Amount::Cpus(other)) => one == other,
        _ => false,
    }
}

/// Whether a smallest value is above a largest one.
fn is_above(least: &Amount, most: &Amount) -> bool {
    match (least, most) {
        (
            Amount::Constant(FieldValue::Number(least)),
            Amount::Constant(FieldValue::Number(most)),
        )
        | (Amount::Cpus(least), Amount::Cpus(most)) => *most >= 0 && least > most,
        (
            Amount::Constant(FieldValue::Rlimit(soft, hard)),
            Amount::Constant(FieldValue::Rlimit(most_soft, most_hard)),
        ) => soft > most_soft || hard > most_hard,
        _ => false,
    }
}

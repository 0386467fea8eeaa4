//! What to write in place of a look-up that nothing guards: whole lines of the file, of which it is
//! known that they have the look-up no more, or else the part of the expression.

use super::{
    lookups::{Lookup, lookups},
    mismatch::mismatches,
    part::Part,
    path::Declared,
    presence::Present,
};
use crate::{
    expression::Expression,
    hint::{line, one_line},
    rule::Rule,
};
use cel::common::ast::IdedExpr;

/// Length of an expression in bytes that a message has as a whole, so that no line of the log is
/// cut.
pub(super) const MAX_LINE: usize = 400;

/// An entry that a container may not have.
pub(super) struct Unguarded<'a> {
    /// The entry.
    pub entry: &'a str,
    /// The condition under which it is there.
    pub guard: &'a str,
    /// An expression that has a value without the entry, too.
    pub or_empty: Option<&'a str>,
}

/// Returns what to write in an expression that is a condition: of the rule, or for entries. The
/// lines are without all look-ups that nothing guards, not this one alone.
pub(super) fn of_condition(
    part: &Part<'_>,
    unguarded: &Unguarded<'_>,
    present: &Present,
    declared: &Declared<'_>,
) -> String {
    let lines = lines(part, present, declared);
    let Unguarded { entry, guard, or_empty } = unguarded;
    match (lines.is_empty(), or_empty) {
        (false, _) => format!("write {}", lines.join(", or ")),
        (true, Some(or_empty)) => format!("write {guard} && {entry}, or {or_empty}"),
        (true, None) => format!("write {guard} && {entry}"),
    }
}

/// Returns lines for a condition that have neither its look-ups that nothing guards, nor its
/// mismatches of types whose cure is known.
pub(super) fn lines(part: &Part<'_>, present: &Present, declared: &Declared<'_>) -> Vec<String> {
    let source = of_types(part);
    let number_of_mismatches = |tree: &IdedExpr| mismatches(tree, part.entry_type()).len();
    let Ok(expression) = Expression::of_entry(&source) else { return Vec::new() };
    let left = number_of_mismatches(expression.tree());
    let is_cured = |candidate: &String| {
        candidate.len() <= MAX_LINE
            && Expression::of_entry(candidate).and_then(Expression::condition).is_ok_and(|new| {
                !lookups(new.tree(), present, declared).iter().any(is_unguarded)
                    && number_of_mismatches(new.tree()) <= left
            })
    };
    let mut guards: Vec<String> = Vec::new();
    let mut replaced = source.clone();
    for lookup in lookups(expression.tree(), present, declared) {
        let Lookup::Unguarded { entry, guard, or_empty } = lookup else { continue };
        guards.push(guard);
        let spellings = spellings(&entry);
        let written = spellings.iter().find(|entry| replaced.contains(entry.as_str()));
        if let (Some(written), Some(or_empty)) = (written, or_empty) {
            replaced = replaced.replace(written, &or_empty);
        }
    }
    let guarded = guards.iter().chain([&source]).cloned().collect::<Vec<_>>().join(" && ");
    // `labels["a"] != "x"` is meant for containers without the label, too: with a guard before it,
    // the rule would pass them.
    let is_negated = source.contains('!') && replaced != source;
    let mut lines = if is_negated { vec![replaced] } else { vec![guarded, replaced] };
    lines.dedup();
    let key = part.name.rsplit('.').next().unwrap_or_default();
    lines.iter().filter(|text| is_cured(text)).map(|text| line(key, text)).collect()
}

/// Returns the text of an expression as one line, with the cures of its mismatches of types, as far
/// as these are known and the text has their part in a known form.
pub(super) fn of_types(part: &Part<'_>) -> String {
    let mut source = one_line(part.expression.source());
    for found in mismatches(part.expression.tree(), part.entry_type()) {
        let spellings = [found.part.clone(), found.part.replace('"', "'")];
        let own = spellings.iter().find(|own| source.matches(own.as_str()).count() == 1);
        let cured = own.zip(found.cure).map(|(own, cure)| {
            // Binds closer than operators that a cure may have.
            match source.split(own.as_str()).next() {
                Some(before) if before.ends_with('!') => source.replace(own, &format!("({cure})")),
                _ => source.replace(own, &cure),
            }
        });
        // A cure that is a form only is no expression.
        if let Some(cured) = cured.filter(|text| Expression::of_entry(text).is_ok()) {
            source = cured;
        }
    }
    source
}

fn is_unguarded(lookup: &Lookup) -> bool {
    matches!(lookup, Lookup::Unguarded { .. })
}

/// Returns what to write for a value of the rule. A rule that refuses keeps its condition: it would
/// let containers without the entry pass.
pub(super) fn of_value(
    rule: &Rule,
    part: &Part<'_>,
    unguarded: &Unguarded<'_>,
    present: &Present,
    declared: &Declared<'_>,
) -> String {
    let Unguarded { entry, guard, or_empty } = unguarded;
    let condition = rule.condition.as_ref().map(|condition| one_line(condition.source()));
    let candidates = match condition {
        None => vec![(*guard).to_owned()],
        Some(source) => {
            vec![format!("{guard} && {source}"), format!("{guard} && ({source})")]
        }
    };
    let is_cured = |candidate: &String| {
        if candidate.len() > MAX_LINE {
            return false;
        }
        let Ok(new) = Expression::parse(candidate) else { return false };
        Present::if_is(new.tree(), true, &Declared::default()).is_some_and(|matching| {
            !has_lookup(part.expression, entry, &present.and(&matching), declared)
        })
    };
    let guarded = candidates.into_iter().find(is_cured).filter(|_| rule.refuse.is_none());
    match (guarded.map(|text| line("match", &text)), or_empty) {
        (Some(line), Some(or_empty)) => format!("write {line}, or {or_empty} in the value"),
        (Some(line), None) => format!("write {line}"),
        (None, Some(or_empty)) => format!("write {or_empty} in its place"),
        (None, None) => format!("write {guard} ? {entry} : …"),
    }
}

/// Whether an expression reads an entry without a guard.
fn has_lookup(
    expression: &Expression,
    entry: &str,
    present: &Present,
    declared: &Declared<'_>,
) -> bool {
    let found = lookups(expression.tree(), present, declared);
    found
        .iter()
        .any(|lookup| matches!(lookup, Lookup::Unguarded { entry: own, .. } if own == entry))
}

/// Returns the ways to write an entry: `labels["team"]`, `labels['team']`, `labels.team`.
fn spellings(entry: &str) -> Vec<String> {
    let mut all = vec![entry.to_owned(), entry.replace('"', "'")];
    if let Some((map, key)) = entry.strip_suffix("\"]").and_then(|text| text.split_once("[\"")) {
        all.push(format!("{map}.{key}"));
    }
    all
}

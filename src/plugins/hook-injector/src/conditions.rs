//! Conditions of a hook (`when`): whether it is injected into a container.

use regex::Regex;
use std::collections::{BTreeMap, HashMap};

/// What a definition asks for, as it is written there.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    pub(crate) always: Option<bool>,
    /// Patterns of keys, and the patterns of their values.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) commands: Vec<String>,
    pub(crate) has_bind_mounts: Option<bool>,
}

/// Conditions with compiled patterns.
#[derive(Debug)]
pub(crate) struct Conditions {
    always: Option<bool>,
    annotations: Vec<(Regex, Regex)>,
    commands: Vec<Regex>,
    has_bind_mounts: Option<bool>,
    /// Whether one condition that holds is enough (format 0.1.0).
    is_any: bool,
}

/// What conditions are compared with.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(crate) annotations: HashMap<String, String>,
    pub(crate) args: Vec<String>,
    pub(crate) has_bind_mounts: bool,
}

/// A pattern is no regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} {pattern:?} is no regular expression: {reason}")]
pub(crate) struct InvalidPattern {
    condition: &'static str,
    pattern: String,
    reason: String,
}

/// A condition on the command cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the container has no arguments, which a condition on its command needs")]
pub(crate) struct NoCommand;

impl Conditions {
    /// Conditions that must all hold.
    pub(crate) fn all_of(requested: Requested) -> Result<Self, InvalidPattern> {
        Self::compiled(requested, false)
    }

    /// Conditions of which one must hold.
    pub(crate) fn any_of(requested: Requested) -> Result<Self, InvalidPattern> {
        Self::compiled(requested, true)
    }

    fn compiled(requested: Requested, is_any: bool) -> Result<Self, InvalidPattern> {
        let annotations = requested.annotations.iter().map(|(key, value)| {
            Ok((compile("annotation key", key)?, compile("annotation value", value)?))
        });
        let commands = requested.commands.iter().map(|command| compile("command", command));
        Ok(Self {
            always: requested.always,
            annotations: annotations.collect::<Result<_, _>>()?,
            commands: commands.collect::<Result<_, _>>()?,
            has_bind_mounts: requested.has_bind_mounts,
            is_any,
        })
    }

    /// Whether the conditions hold. Without conditions they never hold; `always` or `hasBindMounts`
    /// with the value false never holds either (and prevents all others, if all have to hold).
    pub(crate) fn matches(&self, subject: &Subject) -> Result<bool, NoCommand> {
        let always = self.always;
        let bind_mounts = self.has_bind_mounts.map(|wanted| wanted && subject.has_bind_mounts);
        let annotations = self.annotations.iter().map(|(key, value)| {
            subject.annotations.iter().any(|(k, v)| key.is_match(k) && value.is_match(v))
        });
        let held: Vec<bool> = always.into_iter().chain(bind_mounts).chain(annotations).collect();
        match held.iter().find(|&&holds| holds == self.is_any) {
            Some(_) => return Ok(self.is_any),
            None if self.commands.is_empty() => return Ok(!self.is_any && !held.is_empty()),
            None => {}
        }
        let command = subject.args.first().ok_or(NoCommand)?;
        Ok(self.commands.iter().any(|pattern| pattern.is_match(command)))
    }
}

fn compile(condition: &'static str, pattern: &str) -> Result<Regex, InvalidPattern> {
    Regex::new(pattern).map_err(|e| {
        // The error's text draws the pattern over several lines; the last one has the reason.
        let text = e.to_string();
        let reason = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        InvalidPattern { condition, pattern: pattern.to_owned(), reason: reason.to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            annotations: HashMap::from([
                ("com.example.department".to_owned(), "fluid-dynamics".to_owned()),
                ("empty".to_owned(), String::new()),
            ]),
            args: vec!["/usr/bin/init".to_owned(), "x".to_owned()],
            has_bind_mounts: true,
        }
    }

    fn requested(
        always: Option<bool>,
        has_bind_mounts: Option<bool>,
        annotations: &[(&str, &str)],
        commands: &[&str],
    ) -> Requested {
        let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Requested {
            always,
            annotations: annotations.collect(),
            commands: commands.iter().map(|c| (*c).to_owned()).collect(),
            has_bind_mounts,
        }
    }

    /// The outcomes for all conditions and for any condition.
    fn check(requested: impl Fn() -> Requested, all: bool, any: bool) {
        let outcome = |conditions: Conditions| conditions.matches(&subject()).unwrap();
        assert_eq!(outcome(Conditions::all_of(requested()).unwrap()), all, "{:?}", requested());
        assert_eq!(outcome(Conditions::any_of(requested()).unwrap()), any, "{:?}", requested());
    }

    #[test]
    fn each_condition_holds_or_not() {
        check(|| requested(None, None, &[], &[]), false, false);
        check(|| requested(Some(true), None, &[], &[]), true, true);
        check(|| requested(Some(false), None, &[], &[]), false, false);
        check(|| requested(None, Some(true), &[], &[]), true, true);
        check(|| requested(None, Some(false), &[], &[]), false, false);
        check(|| requested(None, None, &[("department$", "^fluid")], &[]), true, true);
        check(|| requested(None, None, &[("department$", "^dynamics")], &[]), false, false);
        check(|| requested(None, None, &[("^empty$", "^$")], &[]), true, true);
        check(|| requested(None, None, &[], &[".*/init$"]), true, true);
        check(|| requested(None, None, &[], &["^init$", "bin"]), true, true);
        check(|| requested(None, None, &[], &["^x$"]), false, false);
    }

    #[test]
    fn all_conditions_must_hold_or_any_in_the_old_format() {
        check(|| requested(Some(true), Some(true), &[("empty", "")], &["init"]), true, true);
        check(|| requested(Some(true), Some(true), &[("empty", "x")], &["init"]), false, true);
        check(|| requested(Some(false), None, &[], &["init"]), false, true);
        check(|| requested(Some(true), None, &[], &["sh"]), false, true);
        check(|| requested(None, None, &[("empty", "x"), ("com", "")], &[]), false, true);
    }

    #[test]
    fn a_condition_on_the_command_needs_a_command() {
        let conditions = Conditions::all_of(requested(None, None, &[], &["sh"])).unwrap();
        assert_eq!(conditions.matches(&Subject::default()), Err(NoCommand));
        let conditions = Conditions::all_of(requested(Some(false), None, &[], &["sh"])).unwrap();
        assert_eq!(conditions.matches(&Subject::default()), Ok(false));
    }

    #[test]
    fn an_invalid_pattern_is_named_in_one_line() {
        let error = Conditions::all_of(requested(None, None, &[("a[", "")], &[])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation key \"a[\" is no regular expression: unclosed character class"
        );
    }
}

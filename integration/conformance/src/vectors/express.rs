//! Which vectors can be shown at a runtime under test, and by what.

use crate::run::is_at_least;
use nri_tests::vectors::{Case, Expected, Op};
use serde_json::Value;

/// How a vector is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// The creation is refused, with the names of the plugins.
    Conflict,
    /// A validator receives the result.
    Result,
    /// The update is refused, with the names of the plugins.
    Update,
}

/// Version of NRI that first has a field of an adjustment, or its events. Fields of v0.3 have no
/// row.
const SINCE: &[(&str, &str)] = &[
    ("/rlimits", "v0.4"),
    ("/CDIDevices", "v0.7"),
    ("/linux/oomScoreAdj", "v0.7"),
    ("/linux/resources/pids", "v0.7"),
    ("/args", "v0.10"),
    ("/linux/ioPriority", "v0.10"),
    ("/linux/seccompPolicy", "v0.10"),
    ("/linux/namespaces", "v0.10"),
    ("/linux/sysctl", "v0.11"),
    ("/linux/netDevices", "v0.11"),
    ("/linux/scheduler", "v0.11"),
    ("/linux/rdt", "v0.11"),
    ("/linux/memoryPolicy", "v0.12"),
];

/// First version of NRI with validators.
const VALIDATORS: &str = "v0.10";

/// Returns how a vector is shown at a runtime with this version of NRI.
///
/// # Errors
/// Why it cannot be shown.
pub(super) fn form(case: &Case, nri: &str) -> Result<Form, String> {
    let newest = case.plugins.iter().filter_map(|plugin| plugin.adjust.as_ref());
    let newest = newest.filter_map(|adjust| since(&crate::plugin::json(adjust)));
    let newest = newest.reduce(newer).unwrap_or("v0.3");
    if !is_at_least(nri, newest) {
        return Err(format!("fields of NRI {newest}"));
    }
    match (case.op, &case.expected) {
        (_, Expected::Error { stage, .. }) if stage == "apply" => {
            Err("depends on the classes that the runtime knows".to_owned())
        }
        (_, Expected::Error { error, .. }) if error.starts_with("validator ") => {
            Err("depends on the configuration of the default validator".to_owned())
        }
        (Op::Stop, _) => Err("engines do not report how they merge replies to a stop".to_owned()),
        (Op::Create, Expected::Error { .. }) => Ok(Form::Conflict),
        (Op::Update, Expected::Error { .. }) => Ok(Form::Update),
        (Op::Update, _) => Err("no plugin receives the merge of an update".to_owned()),
        (Op::Create, _) if case.plugins.iter().all(|p| p.adjust.is_none()) => {
            Err("no plugin adjusts anything".to_owned())
        }
        (Op::Create, _) if !is_at_least(nri, VALIDATORS) => {
            Err("only validators receive results, since NRI v0.10".to_owned())
        }
        (Op::Create, _) => Ok(Form::Result),
    }
}

/// Returns the newest version that an adjustment in protojson needs.
fn since(adjust: &Value) -> Option<&'static str> {
    let fields = SINCE.iter().filter(|(field, _)| adjust.pointer(field).is_some());
    fields.map(|(_, version)| *version).reduce(newer)
}

fn newer<'a>(a: &'a str, b: &'a str) -> &'a str {
    if is_at_least(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_field_determines_the_version() {
        assert_eq!(since(&json!({"env": []})), None);
        assert_eq!(since(&json!({"args": [], "linux": {"sysctl": {}}})), Some("v0.11"));
        assert_eq!(since(&json!({"rlimits": [], "linux": {"oomScoreAdj": {}}})), Some("v0.7"));
    }

    #[test]
    fn the_repositorys_vectors_are_mostly_expressible_with_a_new_runtime() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/vectors");
        let cases = super::super::load(dir.as_ref()).unwrap();
        let count = |form| cases.iter().filter(|c| super::form(c, "v0.12.5") == Ok(form)).count();
        assert_eq!((count(Form::Conflict), count(Form::Update)), (197, 12));
        assert!(count(Form::Result) > 200, "{}", count(Form::Result));
        let old = cases.iter().filter(|c| super::form(c, "v0.6") == Ok(Form::Result)).count();
        assert_eq!(old, 0);
    }
}

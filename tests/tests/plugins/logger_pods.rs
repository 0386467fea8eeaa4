//! Pods and settings of the plugin `logger`.

use crate::{
    pods::{self, Case},
    random::Random,
};

/// A configuration, with groups of events in upper and lower case.
pub(crate) const CONFIG: &str = "\
events: [podsandbox, \"createcontainer,StopContainer\"]
setAnnotation: example.org/logger
setEnv: A
unknownKey: 7
";

/// Flags with one dash.
pub(crate) fn arguments() -> Vec<String> {
    let arguments = [
        "-add-annotation",
        "example.org/added",
        "-set-annotation=example.org/set",
        "-add-env",
        "ADDED",
        "-set-env=PATH",
        "-events",
        "runpodsandbox,container",
    ];
    arguments.map(String::from).to_vec()
}

/// Returns a pod, sometimes with the annotation and the variable that the plugin sets.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    if random.one_in(2) {
        case.container.annotations.insert("example.org/set".into(), "by the engine".into());
        case.container.env.push("ADDED=by the engine".into());
    }
    case
}

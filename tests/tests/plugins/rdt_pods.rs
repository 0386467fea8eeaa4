//! Pods of the plugin `rdt`.

use crate::{
    pods::{self, Case, annotated_name},
    random::Random,
};

/// Returns a pod with annotations for its container and for others.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for _ in 0..random.below(5) {
        let values: &[&str] = match random.below(4) {
            0 => &["gold", "", "a/b", "silver"],
            1 => &["L3:0=ff", "L3:0=ff;1=f,MB:0=50", "", ",", "L2:0=3,"],
            _ => &["true", "false", "1", "0", "t", "F", "True", "FALSE", "yes", "", "tRue"],
        };
        let names = ["closid", "schemata", "enablemonitoring", "enablemonitoring", "colour", "x.y"];
        let scope = match random.below(8) {
            0 => "pod".to_owned(),
            _ => format!("container.{}", annotated_name(random, &case)),
        };
        let key = format!("{}.rdt.noderesource.dev/{scope}", random.pick(&names));
        case.pod.annotations.insert(key, random.pick(values).to_string());
    }
    case
}

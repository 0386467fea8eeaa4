//! Pods of the plugin `ulimit-adjuster`.

use crate::{
    difference::Difference,
    pods::{self, Case, annotated_name},
    random::Random,
    replies::Outcome,
};

/// Differences on purpose.
pub(crate) const DIFFERENCES: &[Difference] = &[Difference {
    what: "a resource that is named twice is refused by the plugin, with its name; upstream's \
           replies with both, which the runtime refuses",
    applies: |_, theirs, ours| match (theirs, ours) {
        (Outcome::Changed(reply), Outcome::Refused(error)) => {
            let limits = reply["adjust"]["rlimits"].as_array().unwrap();
            limits.windows(2).any(|pair| pair[0]["type"] == pair[1]["type"])
                && error.contains("the reply writes rlimits[")
        }
        _ => false,
    },
}];

/// Resources, valid and invalid ones.
const TYPES: [&str; 14] = [
    "RLIMIT_NOFILE",
    "rlimit_memlock",
    "nproc",
    "Core",
    "CPU",
    "stack",
    "RLIMIT_RTTIME",
    "rlimit_Sigpending",
    "as",
    "locks",
    "fsize",
    "RLIMIT_FOO",
    "ULIMIT_CPU",
    "",
];

/// Numbers, most of which are valid.
const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "1024",
    "65536",
    "4096",
    "1000000",
    "18446744073709551615",
    "0x400",
    "null",
    "~",
    "-1",
    "18446744073709551616",
    "1.5",
    "unlimited",
    "1e3",
    "010",
    "1_000",
    "+7",
    "\"1024\"",
    "[1]",
];

/// Values that are no list of limits.
const OTHER: [&str; 12] =
    ["", " ", "null", "[]", "{}", "- {}", "nofile", "7", "type: nofile", "[", "- - 1", "\t- a: b"];

/// Returns a pod with annotations of both keys and of several scopes.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for _ in 0..random.below(4) {
        let key = *random.pick(&["ulimits.noderesource.dev", "ulimits.nri.containerd.io"]);
        let scope = match random.below(8) {
            0 => "/pod".to_owned(),
            1 => String::new(),
            _ => format!("/container.{}", annotated_name(random, &case)),
        };
        let text = if random.one_in(5) { random.pick(&OTHER).to_string() } else { limits(random) };
        case.pod.annotations.insert(format!("{key}{scope}"), text);
    }
    case
}

/// Returns a list of limits as YAML or as JSON. A hard limit is mostly not below the soft one.
fn limits(random: &mut Random) -> String {
    let is_block = random.one_in(2);
    let mut entries = Vec::new();
    for _ in 0..=random.below(3) {
        let mut members = Vec::new();
        if !random.one_in(12) {
            // Most annotations should be valid.
            let types = if random.one_in(4) { &TYPES[..] } else { &TYPES[..11] };
            let kind: &str = random.pick::<&str>(types);
            members.push(format!("type: {}", quoted(kind)));
        }
        let numbers = if random.one_in(4) { &NUMBERS[..] } else { &NUMBERS[..6] };
        let (a, b) = (*random.pick(numbers), *random.pick(numbers));
        let is_ordered = match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a >= b,
            _ => true,
        };
        let (hard, soft) = if is_ordered || random.one_in(8) { (a, b) } else { (b, a) };
        if !random.one_in(8) {
            let key = if random.one_in(12) { "Hard" } else { "hard" };
            members.push(format!("{key}: {hard}"));
        }
        if !random.one_in(4) {
            members.push(format!("soft: {soft}"));
        }
        if random.one_in(12) {
            members.push("type: nofile".to_owned()); // often a second one
        }
        if random.one_in(10) {
            members.push("comment: of an administrator".to_owned());
        }
        entries.push(match is_block {
            true => format!("- {}\n", members.join("\n  ")),
            false => format!("{{{}}}", members.join(", ")),
        });
    }
    if is_block { entries.concat() } else { format!("[{}]", entries.join(", ")) }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { text.to_owned() }
}

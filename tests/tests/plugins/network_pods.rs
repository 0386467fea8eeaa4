//! Pods of the plugin `network-device-injector`. None has a device that exists: what the plugins do
//! with one is tested with containers.

use crate::{
    difference::Difference,
    pods::{self, Case},
    random::Random,
    replies::Outcome,
};

/// Differences on purpose.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "the key that is documented, with netdevices, is read",
        applies: |case, theirs, ours| {
            let is_documented = |key: &String| key.starts_with("netdevices.noderesource.dev");
            let has_it = case.pod.annotations.keys().any(is_documented);
            has_it && is_refused(ours) && !is_refused(theirs)
        },
    },
    Difference {
        what: "a device that cannot be moved is an error, not ignored",
        applies: |_, theirs, ours| {
            matches!(theirs, Outcome::Unchanged)
                && matches!(ours, Outcome::Refused(why) if why.contains("network namespace"))
        },
    },
    Difference {
        what: "names and prefixes that no device or address can have are refused",
        applies: |_, theirs, ours| {
            let is_invalid = |why: &str| why.contains("is no name") || why.contains("is longer");
            matches!(theirs, Outcome::Unchanged)
                && matches!(ours, Outcome::Refused(why) if is_invalid(why))
        },
    },
];

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(_))
}

/// Returns a pod with annotations of the keys.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    let keys = [
        "netdevice.noderesource.dev",
        "netdevice.noderesource.dev",
        "netdevices.nri.containerd.io",
        "netdevices.noderesource.dev",
    ];
    for _ in 0..random.below(3) {
        let scope = random.pick(&["", "/pod"]);
        let names = ["nri-absent", "nri-absent", "sixteen-bytes-xx", "\"\""];
        let mut value = format!("- name: {}\n", random.pick(&names));
        if random.one_in(2) {
            value += "  new_name: eth33\n";
        }
        if random.one_in(2) {
            value += &format!("  address: {}\n", random.pick(&["192.0.2.2", "::1", "1.2.3"]));
            value += &format!("  prefix: {}\n", random.pick(&["24", "0", "32", "64"]));
        }
        if random.one_in(8) {
            value = random.pick(&["", "[]", "[", "7", "null"]).to_string();
        }
        case.pod.annotations.insert(format!("{}{scope}", random.pick(&keys)), value);
    }
    case
}

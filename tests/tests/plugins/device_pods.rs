//! Pods of the plugin `device-injector`.

use crate::{
    difference::Difference,
    pods::{self, Case, annotated_name},
    random::Random,
    replies::Outcome,
};

/// Differences on purpose.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "an unknown I/O class, scheduling policy or flag is refused, not replaced",
        applies: |_, theirs, ours| is_refused_here(theirs, ours, ": unknown "),
    },
    Difference {
        what: "a key that begins with - is refused: it would remove what others have added",
        applies: |_, theirs, ours| is_refused_here(theirs, ours, "leading - means removal"),
    },
    Difference {
        what: "two equal entries are refused: a runtime refuses them, or the last one counts",
        applies: |_, theirs, ours| is_refused_here(theirs, ours, " twice: "),
    },
    Difference {
        what: "an entry without its key is refused here: the runtime refuses it",
        applies: |_, theirs, ours| is_refused_here(theirs, ours, "with an empty key"),
    },
];

/// Whether only our plugin has refused, with this text.
fn is_refused_here(theirs: &Outcome, ours: &Outcome, text: &str) -> bool {
    let is_refused = matches!(ours, Outcome::Refused(why) if why.contains(text));
    is_refused && matches!(theirs, Outcome::Unchanged | Outcome::Changed(_))
}

/// Values that are wrong for each kind.
const OTHER: [&str; 5] = ["[", "{", "- [", "\t- a: b", "7"];

/// Generates a value of an annotation.
type Generate = fn(&mut Random) -> String;

/// Keys, and generators of their values.
const KINDS: [(&str, &str, Generate); 8] = [
    ("devices.noderesource.dev", "devices.nri.io", devices),
    ("cdi-devices.noderesource.dev", "cdi-devices.nri.io", cdi_devices),
    ("mounts.noderesource.dev", "mounts.nri.io", mounts),
    ("network-devices.noderesource.dev", "network-devices.nri.io", net_devices),
    ("io-priority.noderesource.dev", "io-priority.nri.io", io_priority),
    ("scheduling-policy.noderesource.dev", "scheduling-policy.nri.io", scheduler),
    ("memory-policy.noderesource.dev", "memory-policy.nri.io", memory_policy),
    ("sysctl.noderesource.dev", "sysctl.nri.io", sysctls),
];

/// Returns a pod with annotations of some kinds, of both keys and of several scopes.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for _ in 0..random.below(6) {
        let (key, old_key, generate) = *random.pick(&KINDS);
        let key = if random.one_in(3) { old_key } else { key };
        let scope = match random.below(5) {
            0 => String::new(),
            1 => "/pod".to_owned(),
            _ => format!("/container.{}", annotated_name(random, &case)),
        };
        let value =
            if random.one_in(25) { random.pick(&OTHER).to_string() } else { generate(random) };
        case.pod.annotations.insert(format!("{key}{scope}"), value);
    }
    case
}

/// Returns a list of up to three entries, as YAML blocks.
fn list(random: &mut Random, mut entry: impl FnMut(&mut Random) -> Vec<String>) -> String {
    let count = random.below(4);
    let entries: Vec<String> = (0..count)
        .map(|_| match entry(random) {
            members if members.is_empty() => "- {}\n".to_owned(),
            members => format!("- {}\n", members.join("\n  ")),
        })
        .collect();
    if entries.is_empty() { random.pick(&["", "[]", "null"]).to_string() } else { entries.concat() }
}

/// Returns `name: VALUE`, or nothing in some cases. A name may have capitals.
fn member(random: &mut Random, name: &str, values: &[&str], members: &mut Vec<String>) {
    if random.one_in(8) {
        return;
    }
    let name = match random.below(12) {
        0 => name.to_uppercase(),
        1 => name[..1].to_uppercase() + &name[1..],
        _ => name.to_owned(),
    };
    members.push(format!("{name}: {}", random.pick(values)));
}

fn devices(random: &mut Random) -> String {
    const PATHS: [&str; 6] = ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e", "\"-/dev/x\""];
    list(random, |random| {
        let mut members = Vec::new();
        if !random.one_in(30) {
            members.push(format!("path: {}", random.pick(&PATHS)));
        }
        member(random, "type", &["c", "b", "p", "\"c\"", "7", "true"], &mut members);
        member(random, "major", &["1", "10", "0x10", "-1", "1"], &mut members);
        member(random, "minor", &["3", "5", "1e2", "0", "7"], &mut members);
        member(random, "file_mode", &["0644", "0o600", "438", "0", "0x1ff"], &mut members);
        member(random, "uid", &["0", "1000", "1", "7"], &mut members);
        member(random, "gid", &["0", "1000", "1", "7"], &mut members);
        if random.one_in(40) {
            members.push("uid: many".to_owned());
        }
        if random.one_in(10) {
            members.push("comment: of an administrator".to_owned());
        }
        members
    })
}

fn cdi_devices(random: &mut Random) -> String {
    const NAMES: [&str; 5] = ["v.com/c=a", "v.com/c=b", "v.com/c=all", "\"v.com/c=d\"", "7"];
    let count = random.below(4);
    (0..count).map(|_| format!("- {}\n", random.pick(&NAMES))).collect()
}

fn mounts(random: &mut Random) -> String {
    list(random, |random| {
        let mut members =
            vec![format!("destination: {}", random.pick(&["/a", "/b", "/c", "/d", "-/e", "/f"]))];
        member(random, "source", &["/home", "/srv/x", "tmpfs", "7"], &mut members);
        member(random, "type", &["bind", "tmpfs", "none"], &mut members);
        let options = ["[bind, ro]", "[]", "[rbind, rslave, \"size=7\"]", "null", "[7]"];
        member(random, "options", &options, &mut members);
        members
    })
}

fn net_devices(random: &mut Random) -> String {
    list(random, |random| {
        let key = random.pick(&["hostIf", "hostif", "HostIf"]);
        let mut members =
            vec![format!("{key}: {}", random.pick(&["ens2", "ens3.100", "eth1", "eth2", "-eth3"]))];
        member(random, "name", &["net0", "net1", "\"\"", "7"], &mut members);
        members
    })
}

fn io_priority(random: &mut Random) -> String {
    let mut members = Vec::new();
    let classes = ["IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE", "IOPRIO_CLASS_NONE"];
    member(random, "class", &classes, &mut members);
    if random.one_in(12) {
        members = vec!["class: best".to_owned()];
    }
    member(random, "priority", &["0", "3", "7", "-1"], &mut members);
    members.join("\n")
}

fn scheduler(random: &mut Random) -> String {
    let mut members = Vec::new();
    let policies = ["SCHED_FIFO", "SCHED_RR", "SCHED_OTHER", "SCHED_DEADLINE", "SCHED_NONE"];
    member(random, "policy", &policies, &mut members);
    member(random, "nice", &["0", "5", "-20"], &mut members);
    member(random, "priority", &["1", "99"], &mut members);
    let flags = ["[SCHED_FLAG_RESET_ON_FORK]", "[SCHED_FLAG_RECLAIM, SCHED_FLAG_DL_OVERRUN]", "[]"];
    member(random, "flags", &flags, &mut members);
    if random.one_in(12) {
        members.push("flags: [FAST]".to_owned());
    }
    member(random, "runtime", &["1000000", "1e6", "18446744073709551615"], &mut members);
    member(random, "deadline", &["2000000"], &mut members);
    member(random, "period", &["3000000"], &mut members);
    members.join("\n")
}

fn memory_policy(random: &mut Random) -> String {
    let mut members = Vec::new();
    let modes = ["MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_LOCAL", "MPOL_PREFERRED", "MPOL_NONE"];
    member(random, "mode", &modes, &mut members);
    member(random, "nodes", &["\"0\"", "0", "\"2,3\"", "0-1"], &mut members);
    let flags = ["[MPOL_F_STATIC_NODES]", "[MPOL_F_RELATIVE_NODES]", "[]", "[MPOL_F_OTHER]"];
    member(random, "flags", &flags, &mut members);
    members.join("\n")
}

fn sysctls(random: &mut Random) -> String {
    let mut members = Vec::new();
    let values = ["256", "\"256\"", "\"4096 8192\"", "true", "text", "~"];
    member(random, "net.core.somaxconn", &values, &mut members);
    member(random, "kernel.shm_rmid_forced", &values, &mut members);
    members.join("\n")
}

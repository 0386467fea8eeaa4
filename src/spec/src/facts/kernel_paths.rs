//! The fact `unprotected_paths`: paths of the kernel that engines hide or make read-only by
//! default, because root in a container could become root on the host with them, or read what
//! belongs to the host.

use crate::OciConfig;
use serde_json::Value;

/// Paths that Docker, containerd, Podman and CRI-O all mask.
const MASKED: [&str; 8] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
];
/// Paths that they make read-only.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// File systems whose mounts they make read-only as a whole, and the path in the fact.
const MOUNTS: [(&str, &str); 3] =
    [("cgroup", "/sys/fs/cgroup"), ("cgroup2", "/sys/fs/cgroup"), ("sysfs", "/sys")];

/// Returns the paths, sorted.
pub(super) fn unprotected(config: &OciConfig) -> Vec<&'static str> {
    let list = |name| paths(config, name);
    let (masked, read_only) = (list("maskedPaths"), list("readonlyPaths"));
    let mounts: Vec<Mount<'_>> = mounts(config).collect();
    let shown = |path: &&'static str| mounts.iter().any(|mount| mount.shows(path));
    let hidden = |path: &&'static str| !masked.iter().any(|masked| covers(masked, path));
    let written = |path: &&'static str| {
        !masked.iter().chain(&read_only).any(|covered| covers(covered, path))
            && mounts.iter().any(|mount| mount.shows(path) && !mount.is_read_only)
    };
    let of_mounts = MOUNTS.into_iter().filter(|(kind, _)| {
        mounts.iter().any(|mount| mount.fs_type == *kind && !mount.is_read_only)
    });
    let mut found: Vec<_> = MASKED.into_iter().filter(shown).filter(hidden).collect();
    found.extend(READ_ONLY.into_iter().filter(written));
    found.extend(of_mounts.map(|(_, path)| path));
    // `/proc` or `/sys` at another place has none of the masks.
    let elsewhere = |mount: &&Mount<'_>| mount.is_elsewhere();
    found.extend(mounts.iter().filter(elsewhere).map(|mount| mount.root()));
    found.sort_unstable();
    found.dedup();
    found
}

/// A mount of a file system of the kernel.
struct Mount<'a> {
    destination: &'a str,
    fs_type: &'a str,
    is_read_only: bool,
}

impl Mount<'_> {
    /// The path at which the file system usually is.
    fn root(&self) -> &'static str {
        if self.fs_type == "proc" { "/proc" } else { "/sys" }
    }

    /// Whether the mount shows a path of the kernel where masks expect it.
    fn shows(&self, path: &str) -> bool {
        self.destination == self.root() && contains(self.root(), path)
    }

    /// Whether `proc` or `sysfs` is at a path that engines do not protect.
    fn is_elsewhere(&self) -> bool {
        matches!(self.fs_type, "proc" | "sysfs") && self.destination != self.root()
    }
}

fn mounts(config: &OciConfig) -> impl Iterator<Item = Mount<'_>> {
    let mounts = config.get(&["mounts"]).and_then(Value::as_array).into_iter().flatten();
    mounts.map(|mount| {
        let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
        let options = mount.get("options").and_then(Value::as_array).into_iter().flatten();
        // The last one counts.
        let mut options = options.filter_map(Value::as_str);
        let access = options.rfind(|option| matches!(*option, "ro" | "rw"));
        let destination = text("destination");
        Mount {
            destination: Some(destination.trim_end_matches('/'))
                .filter(|path| !path.is_empty())
                .unwrap_or(destination),
            fs_type: text("type"),
            is_read_only: access == Some("ro"),
        }
    })
}

fn paths<'a>(config: &'a OciConfig, name: &str) -> Vec<&'a str> {
    let paths = config.get(&["linux", name]).and_then(Value::as_array).into_iter().flatten();
    paths.filter_map(Value::as_str).collect()
}

/// Whether an entry of the masked or read-only paths covers `path`. One above the mount of the
/// kernel's file system, such as `/`, covers nothing: a mask over `/` hides nothing from a process
/// whose root is below it, and read-only is one mount without those below it.
fn covers(entry: &str, path: &str) -> bool {
    ["/proc", "/sys"].iter().any(|root| contains(root, entry)) && contains(entry, path)
}

/// Whether `path` is `directory` or below it.
fn contains(directory: &str, path: &str) -> bool {
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(linux: &Value, mounts: &Value) -> String {
        let config = OciConfig::from_value(json!({"linux": linux, "mounts": mounts})).unwrap();
        unprotected(&config).join(",")
    }

    fn usual() -> Value {
        json!([
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["rw", "ro"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "options": ["ro"]},
            {"destination": "/dev", "type": "tmpfs"},
        ])
    }

    #[test]
    fn what_engines_hide_and_make_read_only_by_default_is_protected() {
        let linux = json!({"maskedPaths": MASKED, "readonlyPaths": READ_ONLY});
        assert_eq!(of(&linux, &usual()), "");
        let parents = json!({"maskedPaths": ["/proc", "/sys/"]});
        assert_eq!(of(&parents, &usual()), "");
        assert_eq!(of(&linux, &json!([])), "");
    }

    #[test]
    fn a_mask_of_a_parent_of_the_mount_protects_nothing() {
        let all = of(&json!({}), &usual());
        for entry in ["/", "//", "/.", "/proc/..", "/pro", ""] {
            let linux = json!({"maskedPaths": [entry], "readonlyPaths": [entry]});
            assert_eq!(of(&linux, &usual()), all, "{entry:?}");
        }
    }

    #[test]
    fn each_path_without_protection_is_found() {
        let all = "/proc/acpi,/proc/bus,/proc/fs,/proc/irq,/proc/kcore,/proc/keys,\
                   /proc/latency_stats,/proc/sched_debug,/proc/scsi,/proc/sys,\
                   /proc/sysrq-trigger,/proc/timer_list,/sys/firmware";
        assert_eq!(of(&json!({"maskedPaths": null}), &usual()), all);
        let read_only: Vec<_> = READ_ONLY.into_iter().filter(|p| *p != "/proc/sys").collect();
        let linux = json!({"maskedPaths": MASKED, "readonlyPaths": read_only});
        assert_eq!(of(&linux, &usual()), "/proc/sys");
        // A path below is not the path.
        let linux = json!({"maskedPaths": MASKED, "readonlyPaths": ["/proc/sys/kernel"]});
        assert_eq!(
            of(&linux, &usual()),
            "/proc/bus,/proc/fs,/proc/irq,/proc/sys,/proc/sysrq-trigger"
        );
        let linux = json!({"maskedPaths": MASKED, "readonlyPaths": READ_ONLY});
        for (index, options, expected) in [
            (1, json!(["ro", "rw"]), "/sys"),
            (1, json!([]), "/sys"),
            (2, json!(["rw"]), "/sys/fs/cgroup"),
            (0, json!(["ro"]), ""),
        ] {
            let mut mounts = usual();
            mounts[index]["options"] = options;
            assert_eq!(of(&linux, &mounts), expected);
        }
        let mut mounts = usual();
        mounts[3] = json!({"destination": "/x", "type": "proc", "source": "proc"});
        assert_eq!(of(&linux, &mounts), "/proc");
    }
}

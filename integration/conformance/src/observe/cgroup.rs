//! Resources of a container, from the files of its cgroups (v1 or v2).

use super::Process;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files of a resource: controller, file of cgroup v1, file of v2, and its word in that line.
const FILES: &[(&str, &str, &str, &str, usize)] = &[
    ("memory.limit", "memory", "memory.limit_in_bytes", "memory.max", 0),
    ("cpu.shares", "cpu", "cpu.shares", "cpu.weight", 0),
    ("cpu.quota", "cpu", "cpu.cfs_quota_us", "cpu.max", 0),
    ("cpu.period", "cpu", "cpu.cfs_period_us", "cpu.max", 1),
    ("pids.limit", "pids", "pids.max", "pids.max", 0),
];

/// Compares a resource with an expected value.
///
/// # Errors
/// What the kernel has instead.
pub fn resource(process: Process, name: &str, expected: i64) -> Result<(), String> {
    let row = FILES.iter().find(|row| row.0 == name);
    let Some((_, controller, v1, v2, word)) = row else {
        return Err(format!("the case names an unknown resource: {name}"));
    };
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let file = directory(process, if is_v2 { "" } else { controller })
        .ok_or_else(|| format!("{name}: the process has no cgroup of {controller}"))?
        .join(if is_v2 { v2 } else { v1 });
    let text = fs::read_to_string(&file).map_err(|e| format!("{name}: {}: {e}", file.display()))?;
    let word = if is_v2 { *word } else { 0 };
    let got = text.split_whitespace().nth(word).unwrap_or_default().to_owned();
    let accepted = match (name, is_v2) {
        ("cpu.shares", true) => weights(expected),
        _ => vec![expected.to_string()],
    };
    if accepted.contains(&got) {
        return Ok(());
    }
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    Err(format!("{name}: {} expected, {got} in {file}", accepted.join(" or ")))
}

/// Returns the weights that runtimes make of CPU shares, by the older and the newer formula of runc
/// and crun.
fn weights(shares: i64) -> Vec<String> {
    let linear = 1 + ((shares - 2) * 9999) / 262_142;
    let log = (shares.max(1) as f64).log2();
    let newer = 10f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil();
    vec![linear.to_string(), format!("{newer}")]
}

/// Directory of the process's cgroup of a controller; of cgroup v2 if the controller is empty.
fn directory(process: Process, controller: &str) -> Option<PathBuf> {
    let text = process.text("cgroup");
    let path = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_match = controllers.split(',').any(|c| c == controller);
        is_match.then(|| path.trim_start_matches('/').to_owned())
    })?;
    Some(Path::new("/sys/fs/cgroup").join(controller).join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_weight_by_each_formula() {
        assert_eq!(weights(1024), ["39", "100"]);
        assert_eq!(weights(2), ["1", "1"]);
    }
}

//! Describes the machine of a run.

use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Returns the commit, the form of the run and the machine as pairs of name and text. What this
/// machine does not say is empty.
pub fn describe(form: &str) -> Vec<(&'static str, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let changed = if git(&["status", "--porcelain"]).is_empty() { "" } else { ", with changes" };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        ("commit", format!("{}{changed}", git(&["log", "-1", "--format=%h of %cs"]))),
        ("form", form.to_owned()),
        ("processor", format!("{}, {cores} cores", field(&read("/proc/cpuinfo"), "model name"))),
        ("memory", field(&read("/proc/meminfo"), "MemTotal")),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("virtual machine", version(Path::new("systemd-detect-virt"), "--vm")),
        ("directories", format!("{} ({})", std::env::temp_dir().display(), file_system())),
        ("load before", read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()),
    ]
}

/// First line that a program prints; empty if it cannot be run.
pub fn version(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Type of the file system on which the state directories and bundles are.
fn file_system() -> String {
    let mut command = Command::new("stat");
    let output = command.args(["-f", "-c", "%T"]).arg(std::env::temp_dir()).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// The description as JSON.
pub fn json(machine: &[(&'static str, String)]) -> Value {
    let members = machine.iter().map(|(name, text)| ((*name).to_owned(), json!(text)));
    Value::Object(members.collect())
}

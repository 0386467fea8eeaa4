//! A shipped plugin as an external one, by the commands of its systemd unit.

use crate::{Ended, Node, Process, call, programs, wait_until};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A plugin that runs as its unit says, with a configuration file of the test. Dropping this value
/// kills the plugin.
#[derive(Debug)]
pub struct PluginService<'a> {
    node: &'a Node,
    child: Child,
    reload: Vec<Vec<String>>,
    log: PathBuf,
}

impl<'a> PluginService<'a> {
    /// Starts the plugin `name` for the running `nrid` of a node, and waits until it is active.
    pub fn start(node: &'a Node, name: &str, file: &Path) -> Self {
        let unit = programs::script(&format!("../src/plugins/{name}/{name}.service"));
        let unit = fs::read_to_string(&unit).unwrap_or_else(|e| panic!("{unit:?}: {e}"));
        let unit = unit.replace("\\\n", " ");
        let program = programs::built(&format!("nri-{name}"));
        let commands = |key: &str| -> Vec<Vec<String>> {
            let of_test = |word: &str| match word {
                _ if word.starts_with("/etc/") => file.display().to_string(),
                _ if word.ends_with(&format!("/plugins/{name}")) => program.display().to_string(),
                _ => word.to_owned(),
            };
            let values = unit.lines().filter_map(|line| line.strip_prefix(key));
            values.map(|line| line.split_whitespace().map(of_test).collect()).collect()
        };
        let start = commands("ExecStart=").concat();
        let mut command = Command::new(&start[0]);
        command.args(&start[1..]).args(["-name", name]);
        command.arg("-socket").arg(node.state_dir().join("nri.sock")).stdin(Stdio::null());
        let (_, log) = call::redirect(&mut command, &node.path("calls"));
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let new = Self { node, child, reload: commands("ExecReload="), log };
        wait_until(format_args!("{name} to be active: {}", new.log()), || {
            let status = node.status()?;
            let mut plugins = status["plugins"].as_array()?.iter();
            plugins.any(|p| p["pid"] == new.child.id() && p["state"] == "active").then_some(())
        });
        new
    }

    /// Calls the unit's commands for a reload, until one fails. Returns the last one.
    pub fn reload(&self) -> Ended {
        let mut last = None;
        for command in &self.reload {
            let words = command.iter().map(|word| match word.as_str() {
                "$MAINPID" => self.child.id().to_string(),
                _ => word.clone(),
            });
            let words: Vec<_> = words.collect();
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            let ended = last.insert(self.node.run(command));
            if ended.code != Some(0) {
                break;
            }
        }
        last.expect("the unit has ExecReload")
    }

    /// The plugin's process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// What the plugin has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for PluginService<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Journals of plugins: files with a JSON line for each event that a plugin received.

use crate::wait_until;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A plugin's journal.
#[derive(Debug, Clone)]
pub struct Journal(PathBuf);

impl Journal {
    /// Returns the journal at `path`. The file need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns all entries; an incomplete last line is ignored.
    pub fn entries(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let parse = |line: &str| {
            serde_json::from_str(line)
                .unwrap_or_else(|e| panic!("{}: {e}: {line}", self.0.display()))
        };
        complete.lines().filter(|line| !line.is_empty()).map(parse).collect()
    }

    /// Names of the events about a container or a pod with this id, in order.
    pub fn events(&self, id: &str) -> Vec<String> {
        self.entries_about(id).iter().map(|e| event_name(e).to_owned()).collect()
    }

    /// Entries about a container or a pod with this id.
    pub fn entries_about(&self, id: &str) -> Vec<Value> {
        self.entries().into_iter().filter(|e| is_about(e, id)).collect()
    }

    /// Waits for an event of a container, and returns its entry.
    pub fn wait_for(&self, name: &str, id: &str) -> Value {
        wait_until(format_args!("{name} of {id} in {:?}", self.0), || {
            self.entries_about(id).into_iter().find(|e| event_name(e) == name)
        })
    }

    /// Waits for an event that concerns no container, such as `Synchronize`.
    pub fn wait_for_plugin_event(&self, name: &str) -> Value {
        wait_until(format_args!("{name} in {:?}", self.0), || {
            self.entries().into_iter().find(|e| event_name(e) == name)
        })
    }
}

/// Whether an entry concerns an id. The Go plugin writes `container_id` and `pod_id`, the example
/// of the SDK `container` and `pod`.
fn is_about(entry: &Value, id: &str) -> bool {
    ["container_id", "pod_id", "container", "pod"].iter().any(|key| entry[key] == id)
}

fn event_name(entry: &Value) -> &str {
    entry["event"].as_str().unwrap_or_default()
}

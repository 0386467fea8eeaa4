//! Runs a case: connects its plugins, performs its steps, and removes its containers.

mod check;
mod events;
mod steps;

use crate::{
    case::Case,
    driver::{Driver, Failure},
    plugin::{Facts, Session, Sessions},
    report::{Outcome, Status},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// A runtime under test, and the sessions of plugins with it.
pub struct Runner {
    /// Runs containers.
    pub driver: Box<dyn Driver>,
    /// Opens sessions of plugins.
    pub sessions: Sessions,
    /// What the runtime says of itself.
    pub facts: Facts,
    /// Pattern of paths of containers' OCI configs, with `{id}` for the id; the driver's if absent.
    pub oci_config: Option<String>,
    /// First part of the names of containers.
    pub prefix: String,
}

/// Why a case did not pass.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// The runtime did something else.
    Differs(String),
    /// The runtime or its driver cannot do what the case needs.
    Unsupported(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(text) => Self::Differs(text),
            Failure::Unsupported(text) => Self::Unsupported(text),
        }
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Differs(text)
    }
}

/// A case that runs.
struct Running<'a> {
    runner: &'a Runner,
    case: &'a Case,
    sessions: BTreeMap<String, Session>,
    /// Ids of existing containers, by their names in the case.
    ids: BTreeMap<String, String>,
    /// Process ids of containers that were seen running.
    pids: BTreeMap<String, u32>,
    /// First part of the names of its containers, unique for the case.
    prefix: String,
}

impl Runner {
    /// Runs a case.
    pub fn run(&self, case: &Case) -> Outcome {
        let outcome = |status, detail| Outcome {
            case: case.id.clone(),
            about: case.about.clone(),
            status,
            detail,
            counts: None,
        };
        if let Some(since) = &case.since
            && !is_at_least(&self.facts.nri, since)
        {
            let detail = format!("needs NRI {since}, the runtime has {}", self.facts.nri);
            return outcome(Status::Unsupported, detail);
        }
        self.sessions.containers.clear();
        let mut running = Running {
            runner: self,
            case,
            sessions: BTreeMap::new(),
            ids: BTreeMap::new(),
            pids: BTreeMap::new(),
            prefix: format!("{}-{}", self.prefix, case.id.replace('/', "-")),
        };
        let result = running.perform();
        running.clean_up();
        match result {
            Ok(()) => outcome(Status::Pass, String::new()),
            Err(Stop::Differs(text)) => outcome(Status::Fail, self.without_ids(&text)),
            Err(Stop::Unsupported(text)) => outcome(Status::Unsupported, self.without_ids(&text)),
        }
    }

    /// Returns the OCI config of a container.
    fn oci_config(&self, id: &str) -> Result<Value, Failure> {
        let Some(pattern) = &self.oci_config else { return self.driver.config(id) };
        let pattern = pattern.replace("{id}", id);
        let refused = |reason: String| Failure::Refused(format!("{pattern}: {reason}"));
        let mut paths = glob::glob(&pattern).map_err(|e| refused(e.to_string()))?;
        let path = paths.next().ok_or_else(|| refused("no such file".to_owned()))?;
        let text = path.map_err(Into::into).and_then(std::fs::read);
        let text = text.map_err(|e| refused(e.to_string()))?;
        serde_json::from_slice(&text).map_err(|e| refused(e.to_string()))
    }

    /// Returns a text without the parts that differ from run to run.
    pub fn without_ids(&self, text: &str) -> String {
        text.replace(&format!("{}-", self.prefix), "")
    }
}

impl Running<'_> {
    fn perform(&mut self) -> Result<(), Stop> {
        for script in self.case.plugin.iter().filter(|script| !script.later) {
            self.connect(&script.id)?;
        }
        for (number, step) in self.case.step.iter().enumerate() {
            self.step(step).map_err(|stop| match stop {
                Stop::Differs(text) => Stop::Differs(format!("step {}: {text}", number + 1)),
                unsupported => unsupported,
            })?;
        }
        Ok(())
    }

    fn connect(&mut self, id: &str) -> Result<(), Stop> {
        let script = self.script(id)?;
        let session = self.runner.sessions.open(script);
        let session = session.map_err(|error| format!("plugin {id} cannot connect: {error}"))?;
        self.sessions.insert(id.to_owned(), session);
        Ok(())
    }

    fn script(&self, id: &str) -> Result<&crate::case::PluginScript, String> {
        let script = self.case.plugin.iter().find(|script| script.id == id);
        script.ok_or_else(|| format!("the case has no plugin {id}"))
    }

    fn session(&self, id: &str) -> Result<&Session, String> {
        self.sessions.get(id).ok_or_else(|| format!("plugin {id} is not connected"))
    }

    /// Id of an existing container.
    fn id(&self, name: &str) -> Result<String, String> {
        self.ids.get(name).cloned().ok_or_else(|| format!("container {name} does not exist"))
    }

    /// Removes what is left of the case. The plugins go first: their replies are not part of it.
    fn clean_up(&mut self) {
        self.sessions.clear();
        self.runner.sessions.settle();
        for id in self.ids.values() {
            // What fails was reported by the case, or is left to the end of the engine.
            self.runner.driver.stop(id).ok();
            self.runner.driver.remove(id).ok();
        }
        self.runner.driver.finish();
    }
}

/// Whether a version, such as `v0.12.5`, is at least another one.
pub fn is_at_least(version: &str, since: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        text.trim_start_matches('v').split(['.', '-']).map_while(|n| n.parse().ok()).collect()
    };
    numbers(version) >= numbers(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_at_least("v0.12.5", "v0.9"));
        assert!(is_at_least("v0.10", "v0.10"));
        assert!(!is_at_least("v0.6.1", "v0.10.0"));
    }
}

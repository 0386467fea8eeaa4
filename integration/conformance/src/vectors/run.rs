//! Runs vectors and counts their results.

use super::express::{Form, form};
use crate::{
    case::{PluginScript, Reply},
    driver::{Failure, Wanted},
    plugin::{Session, VARIABLE, json, parse},
    report::{Counts, Outcome, Status},
    run::Runner,
};
use nri_api::proto::ValidateContainerAdjustmentRequest;
use nri_tests::vectors::{Case, Expected, Merged};
use std::collections::BTreeMap;

/// Container of the vectors.
const CONTAINER: &str = "vector";

/// Id of the requested container in vectors.
const REQUESTED: &str = "me";

/// Plugin that receives results and rejects the container.
const VALIDATOR: &str = "99-validator";

/// Text of the rejection.
const REJECTED: &str = "conformance vector, no container wanted";

/// Memory limit of the updates, which the plugins' replies never get to.
const MEMORY: i64 = 64 << 20;

/// Names of plugins in vectors.
const PLUGINS: [&str; 3] = ["00-p0", "10-p1", "20-p2"];

/// Groups of vectors: name, form and what a runtime has to do.
const GROUPS: [(&str, Form, &str); 3] = [
    ("vectors/conflicts", Form::Conflict, "conflicting replies refuse the container, by name"),
    ("vectors/results", Form::Result, "validators receive the merged adjustment and its owners"),
    ("vectors/updates", Form::Update, "conflicting replies refuse an update, by name"),
];

/// The plugins that give the replies.
struct Pool<'a> {
    runner: &'a Runner,
    sessions: BTreeMap<&'static str, Session>,
}

impl Runner {
    /// Runs vectors, at most `limit` of each group, spread evenly.
    pub fn run_vectors(&self, cases: &[Case], limit: usize) -> Vec<Outcome> {
        let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
        let mut forms: Vec<(&Case, Form)> = Vec::new();
        for case in cases {
            match form(case, &self.facts.nri) {
                Ok(form) => forms.push((case, form)),
                Err(reason) => *left_out.entry(reason).or_default() += 1,
            }
        }
        let mut outcomes = Vec::new();
        for (name, form, about) in GROUPS {
            let of_group: Vec<&Case> =
                forms.iter().filter(|(_, f)| *f == form).map(|(case, _)| *case).collect();
            let step = of_group.len().div_ceil(limit.max(1)).max(1);
            let chosen: Vec<&Case> = of_group.iter().step_by(step).copied().collect();
            outcomes.push(self.group(name, form, about, &chosen));
        }
        // Every vector that is not run is counted, once, with the first group.
        if let Some(counts) = outcomes.first_mut().and_then(|first| first.counts.as_mut()) {
            counts.left_out = left_out;
        }
        outcomes
    }

    fn group(&self, name: &str, form: Form, about: &str, cases: &[&Case]) -> Outcome {
        let mut outcome = Outcome {
            case: name.to_owned(),
            about: about.to_owned(),
            status: Status::Unsupported,
            detail: "the runtime's version of NRI has none of them".to_owned(),
            counts: Some(Counts::default()),
        };
        if cases.is_empty() {
            return outcome;
        }
        let (mut failed, mut passed) = (Vec::new(), 0);
        self.sessions.containers.clear();
        match self.each(form, cases, |case, result| match result {
            Ok(()) => passed += 1,
            Err(difference) => failed.push(format!("{}: {difference}", case.id)),
        }) {
            Ok(()) => {}
            Err(Failure::Unsupported(reason)) => {
                outcome.detail = reason;
                return outcome;
            }
            Err(Failure::Refused(reason)) => failed.push(reason),
        }
        self.driver.finish();
        outcome.status = if failed.is_empty() { Status::Pass } else { Status::Fail };
        outcome.detail = self.without_ids(&failed.join("\n"));
        outcome.counts = Some(Counts { passed, total: cases.len(), ..Counts::default() });
        outcome
    }

    /// Runs cases of one form.
    ///
    /// # Errors
    /// Why none of them, or none of the rest, can run.
    fn each(
        &self,
        form: Form,
        cases: &[&Case],
        mut report: impl FnMut(&Case, Result<(), String>),
    ) -> Result<(), Failure> {
        let mut pool = Pool { runner: self, sessions: BTreeMap::new() };
        let running = if form == Form::Update { Some(pool.container()?) } else { None };
        let mut result = Ok(());
        for case in cases {
            if let Err(error) = pool.prepare(case, form) {
                result = Err(Failure::Refused(error));
                break;
            }
            let outcome = match (&running, form) {
                (Some(id), _) => pool.update(id, case),
                (None, Form::Result) => pool.result(case),
                (None, _) => pool.conflict(case),
            };
            match outcome {
                Err(Failure::Unsupported(reason)) => {
                    result = Err(Failure::Unsupported(reason));
                    break;
                }
                Err(Failure::Refused(difference)) => report(case, Err(difference)),
                Ok(()) => report(case, Ok(())),
            }
        }
        pool.sessions.clear();
        self.sessions.settle();
        if let Some(id) = running {
            // The vectors are done; what is left ends with the engine.
            self.driver.stop(&id).ok();
            self.driver.remove(&id).ok();
        }
        result
    }
}

impl Pool<'_> {
    /// Runs a container that no plugin adjusts.
    fn container(&self) -> Result<String, Failure> {
        let id = self.runner.driver.create(&self.wanted())?;
        self.runner.sessions.containers.created(CONTAINER, &id);
        self.runner.driver.start(&id)?;
        Ok(id)
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            name: format!("{}-{CONTAINER}", self.runner.prefix),
            pod: format!("{}-vectors", self.runner.prefix),
            args: ["/bin/sleep", "1000"].map(str::to_owned).to_vec(),
            env: vec![format!("{VARIABLE}={CONTAINER}")],
            memory: None,
        }
    }

    /// Gives the plugins the replies of a case, and connects those that are not connected.
    fn prepare(&mut self, case: &Case, form: Form) -> Result<(), String> {
        for id in PLUGINS {
            let events = ["CreateContainer", "UpdateContainer"].map(str::to_owned).to_vec();
            let session = self.session(id, events)?;
            session.plugin.set_replies(replies(case, id, form));
        }
        if form == Form::Result {
            let session =
                self.session(VALIDATOR, vec!["ValidateContainerAdjustment".to_owned()])?;
            session.plugin.journal.clear();
            session.plugin.set_replies(vec![Reply {
                on: "ValidateContainerAdjustment".to_owned(),
                container: Some(CONTAINER.to_owned()),
                reject: Some(REJECTED.to_owned()),
                ..Default::default()
            }]);
        }
        Ok(())
    }

    fn session(&mut self, id: &'static str, events: Vec<String>) -> Result<&Session, String> {
        let is_open = self.sessions.get(id).is_some_and(Session::is_open);
        if !is_open {
            let script = PluginScript { id: id.to_owned(), events, ..Default::default() };
            let session = self.runner.sessions.open(&script);
            let session = session.map_err(|e| format!("plugin {id} cannot connect: {e}"))?;
            self.sessions.insert(id, session);
        }
        self.sessions.get(id).ok_or_else(|| format!("plugin {id} is not connected"))
    }

    /// Creates a container that has to be refused; returns the error.
    fn refused(&self) -> Result<String, Failure> {
        let driver = &self.runner.driver;
        let wanted = self.wanted();
        let created = driver.create(&wanted);
        let started = created.as_ref().map(|id| driver.start(id));
        let error = match (&created, started) {
            (Err(Failure::Refused(text)), _) => Ok(text.clone()),
            (Ok(_), Ok(Err(Failure::Refused(text)))) => Ok(text),
            (Err(failure), _) => Err(failure.clone()),
            (Ok(_), Ok(Err(failure))) => Err(failure),
            _ => Err(Failure::Refused("the container was created".to_owned())),
        };
        if let Ok(id) = created {
            // The container must go in any case; the error of the creation is what counts.
            driver.stop(&id).ok();
            driver.remove(&id).ok();
        }
        error
    }

    fn conflict(&self, case: &Case) -> Result<(), Failure> {
        names_conflict(case, &self.refused()?)
    }

    fn update(&self, id: &str, case: &Case) -> Result<(), Failure> {
        match self.runner.driver.update(id, MEMORY) {
            Ok(()) => Err(Failure::Refused("the update was performed".to_owned())),
            Err(Failure::Refused(text)) => names_conflict(case, &text),
            Err(failure) => Err(failure),
        }
    }

    fn result(&self, case: &Case) -> Result<(), Failure> {
        let error = self.refused()?;
        let Some(validator) = self.sessions.get(VALIDATOR) else {
            return Err(Failure::Refused("the validator is not connected".to_owned()));
        };
        // The validator has replied before the creation was refused.
        let entries = validator.plugin.journal.entries();
        let last = entries.iter().rfind(|entry| entry.event == "ValidateContainerAdjustment");
        let result = match last {
            None => Err(format!("no validation, but: {error}")),
            Some(entry) => parse(&entry.message)
                .map_err(|error| error.to_string())
                .and_then(|request| compare(case, request)),
        };
        result.map_err(Failure::Refused)
    }
}

/// Compares the merge that a validator has received with the expected one.
fn compare(case: &Case, request: ValidateContainerAdjustmentRequest) -> Result<(), String> {
    merged(request).compare(case).map_err(|difference| difference.to_string())
}

/// Returns the merge that a validator has received, with the id of the container as in vectors.
fn merged(request: ValidateContainerAdjustmentRequest) -> Merged {
    let mut owners = request.owners.into_option().unwrap_or_default();
    let id = request.container.id.clone();
    if let Some(of_container) = owners.owners.remove(&id) {
        owners.owners.insert(REQUESTED.to_owned(), of_container);
    }
    let adjust = request.adjust.into_option().unwrap_or_default();
    Merged { adjust, owners, updates: request.update }
}

/// Returns the replies of a plugin in a case.
fn replies(case: &Case, id: &str, form: Form) -> Vec<Reply> {
    let Some(plugin) = case.plugins.iter().find(|plugin| plugin.id.to_string() == id) else {
        return Vec::new();
    };
    let on = if form == Form::Update { "UpdateContainer" } else { "CreateContainer" };
    let mut update: Vec<_> = plugin.updates.iter().map(json).collect();
    for update in &mut update {
        if update["containerId"] == REQUESTED {
            update["containerId"] = CONTAINER.into();
        }
    }
    vec![Reply {
        on: on.to_owned(),
        container: Some(CONTAINER.to_owned()),
        adjust: plugin.adjust.as_ref().map(json),
        update,
        ..Default::default()
    }]
}

/// Whether an error names what the expected one does: plugins and key. The name of the field is not
/// compared: runtimes may call it by another name than the protocol's enum.
fn names_conflict(case: &Case, got: &str) -> Result<(), Failure> {
    let Expected::Error { error, .. } = &case.expected else {
        return Err(Failure::Refused("the case expects no error".to_owned()));
    };
    let mut parts: Vec<&str> = error.split('"').skip(1).step_by(2).collect();
    if !error.starts_with("plugins ") {
        parts.truncate(1); // the plugin; the container has another id
    } else if let Some((_, field)) = error.rsplit_once(" tried to set ") {
        parts.extend(field.split_once(' ').map(|(_, key)| key.trim()));
    }
    match parts.iter().find(|part| !got.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(Failure::Refused(format!("error without {part:?}: {got}"))),
    }
}

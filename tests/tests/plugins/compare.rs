//! Comparison of the replies of two plugins.

use crate::{
    pods::Case,
    replies::{Outcome, Reply},
    rows::Row,
};
use nri_api::EventMask;
use serde_json::Value;
use std::collections::BTreeMap;

/// Indices of a plugin's sessions, and the events that they have subscribed to.
type Subscriptions = Vec<(String, EventMask)>;

/// The comparison of the two plugins of a row.
pub(crate) struct Comparison<'a> {
    row: &'a Row,
    pods: usize,
    same: usize,
    changed: usize,
    refused: usize,
    observed: usize,
    listed: BTreeMap<&'static str, usize>,
    unlisted: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Starts with the subscriptions of the plugins: ours and upstream's.
    pub(crate) fn new(row: &'a Row, ours: Subscriptions, theirs: Subscriptions) -> Self {
        let mut unlisted = Vec::new();
        if ours != theirs {
            let label = row.label;
            unlisted.push(format!("{label}: subscriptions {ours:?}, upstream's {theirs:?}"));
        }
        let listed = row.differences.iter().map(|difference| (difference.what, 0)).collect();
        Self { row, pods: 0, same: 0, changed: 0, refused: 0, observed: 0, listed, unlisted }
    }

    /// Compares the replies to the events of a pod.
    pub(crate) fn add(&mut self, case: &Case, ours: &[Reply], theirs: &[Reply]) {
        self.pods += 1;
        if ours.len() != theirs.len() {
            self.unlisted.push(format!("{}: {ours:?}, upstream's {theirs:?}", self.row.label));
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            match &theirs.outcome {
                Outcome::Changed(_) => self.changed += 1,
                Outcome::Refused(_) => self.refused += 1,
                Outcome::Unchanged | Outcome::Ended(_) => {}
            }
            let is_ended = matches!(ours.outcome, Outcome::Ended(_));
            if ours.event == theirs.event && ours.outcome.is_same(&theirs.outcome) && !is_ended {
                self.same += 1;
                continue;
            }
            let (label, event) = (self.row.label, ours.event);
            let mut differences = self.row.differences.iter();
            match differences.find(|d| (d.applies)(case, &theirs.outcome, &ours.outcome)) {
                Some(difference) => *self.listed.entry(difference.what).or_default() += 1,
                None => self.unlisted.push(format!(
                    "{label}: {event}: {:?}, upstream's {:?}\n  annotations {:?} of {:?}",
                    ours.outcome, theirs.outcome, case.pod.annotations, case.container.name
                )),
            }
        }
    }

    /// Compares what the plugins did besides replying.
    pub(crate) fn add_observed(&mut self, ours: &[Value], theirs: &[Value]) {
        let label = self.row.label;
        if ours.len() != theirs.len() {
            let (ours, theirs) = (ours.len(), theirs.len());
            self.unlisted.push(format!("{label}: {ours} observations, upstream's {theirs}"));
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            if ours == theirs {
                self.observed += 1;
            } else {
                self.unlisted.push(format!("{label}: observed {ours}, upstream's {theirs}"));
            }
        }
    }

    /// Returns the numbers as lines.
    pub(crate) fn summary(&self) -> String {
        let mut lines = format!(
            "{}: {} pods, {} replies the same (upstream changed {}, refused {}), {} differ",
            self.row.label,
            self.pods,
            self.same,
            self.changed,
            self.refused,
            self.unlisted.len()
        );
        if self.observed > 0 {
            lines += &format!("\n  {} observations the same", self.observed);
        }
        for (what, count) in &self.listed {
            lines += &format!("\n  {count} on purpose: {what}");
        }
        lines
    }

    /// Returns the differences that are not listed, and listed ones that no pod has.
    pub(crate) fn unlisted(self) -> Vec<String> {
        let label = self.row.label;
        let unused = self.listed.iter().filter(|(_, count)| **count == 0);
        let unused = unused.map(|(what, _)| format!("{label}: no pod shows: {what}"));
        self.unlisted.into_iter().chain(unused).collect()
    }
}

//! Notes on results: differences on purpose, and explanations of failures.

use super::results::{Outcome, Status};
use crate::Error;
use serde::Deserialize;
use std::{fs, path::Path};

/// Notes, as their file has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    /// Notes, in any order.
    #[serde(default)]
    pub note: Vec<Note>,
}

/// A note on a case at some runtimes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The case.
    pub case: String,
    /// Names of runtimes, as they tell plugins.
    pub runtimes: Vec<String>,
    /// Whether it is a difference on purpose or an explanation of a failure.
    pub verdict: Verdict,
    /// What the runtime does and why.
    pub text: String,
    /// Texts that each line of what was seen must have for the note to apply; any line if empty.
    #[serde(default)]
    pub seen: Vec<String>,
    /// Document that describes a difference on purpose, relative to `docs`.
    #[serde(default)]
    pub link: Option<String>,
}

/// Kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The runtime differs from upstream's rules on purpose.
    Deliberate,
    /// The runtime has a defect or lacks a part.
    Explained,
}

impl Notes {
    /// Reads a file of notes.
    ///
    /// # Errors
    /// If it cannot be read or has another form.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path))?;
        toml::from_str(&text)
            .map_err(|source| Error::Toml { path: path.to_owned(), source: Box::new(source) })
    }

    /// Returns the note on a case at a runtime.
    pub fn find(&self, case: &str, runtime: &str) -> Option<&Note> {
        let is_match =
            |note: &&Note| note.case == case && note.runtimes.iter().any(|name| name == runtime);
        self.note.iter().find(is_match)
    }

    /// Marks failures that are differences on purpose. A case with such a note that passes is a
    /// failure: the note is out of date.
    pub fn mark(&self, runtime: &str, outcomes: &mut [Outcome]) {
        for outcome in outcomes {
            let note = self.find(&outcome.case, runtime);
            if note.is_none_or(|note| note.verdict != Verdict::Deliberate) {
                continue;
            }
            match outcome.status {
                Status::Fail if note.is_some_and(|note| note.applies_to(&outcome.detail)) => {
                    outcome.status = Status::Deliberate;
                }
                Status::Pass => {
                    outcome.status = Status::Fail;
                    "passes, but is noted as a difference on purpose"
                        .clone_into(&mut outcome.detail);
                }
                _ => {}
            }
        }
    }
}

impl Note {
    /// Whether the note is about all that was seen.
    pub fn applies_to(&self, detail: &str) -> bool {
        let has_all = |line: &str| self.seen.iter().all(|text| line.contains(text.as_str()));
        detail.lines().all(has_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_on_purpose_is_one_only_while_it_differs() {
        let notes: Notes = toml::from_str(
            "[[note]]\ncase = 'a'\nruntimes = ['ours']\nverdict = 'deliberate'\ntext = 'x'\n\
             seen = ['hook']\n",
        )
        .unwrap();
        let check = |runtime: &str, detail: &str, before: Status, after: Status| {
            let (case, about, detail) = ("a".to_owned(), String::new(), detail.to_owned());
            let mut all = [Outcome { case, about, status: before, detail, counts: None }];
            notes.mark(runtime, &mut all);
            assert_eq!(all[0].status, after);
        };
        check("ours", "hook 1\nhook 2", Status::Fail, Status::Deliberate);
        check("ours", "hook 1\nenv", Status::Fail, Status::Fail);
        check("ours", "", Status::Pass, Status::Fail);
        check("ours", "no hooks", Status::Unsupported, Status::Unsupported);
        check("theirs", "hook 1", Status::Fail, Status::Fail);
    }
}

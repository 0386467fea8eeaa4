//! Lasting conditions of the host that limit what `nrid` can do: each is one line in the log when
//! it begins, and a line of the status until it ends.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, sync::Arc};

/// The current problems, each with the number of containers that it affects.
#[derive(Debug, Clone, Default)]
pub struct Problems(Arc<Mutex<BTreeMap<String, usize>>>);

/// A problem of one container; it ends when the value is dropped.
#[derive(Debug)]
pub struct Problem {
    problems: Problems,
    message: String,
}

impl Problems {
    /// Reports that a problem affects one more container. Logs it if it affects no other yet.
    pub fn report(&self, message: String) -> Problem {
        let mut problems = self.lock();
        let affected = problems.entry(message.clone()).or_default();
        *affected += 1;
        if *affected == 1 {
            tracing::warn!("{message}");
        }
        drop(problems);
        Problem { problems: self.clone(), message }
    }

    /// Returns a line for each problem.
    pub fn lines(&self) -> Vec<String> {
        let line = |(message, affected): (&String, &usize)| match affected {
            1 => message.clone(),
            n => format!("{message} ({n} containers)"),
        };
        self.lock().iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock()
    }
}

impl Drop for Problem {
    fn drop(&mut self) {
        let mut problems = self.problems.lock();
        if let Some(affected) = problems.get_mut(&self.message) {
            *affected -= 1;
            if *affected == 0 {
                problems.remove(&self.message);
                tracing::info!("problem has ended: {}", self.message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_lasts_as_long_as_it_affects_a_container() {
        let problems = Problems::default();
        let first = problems.report("no descriptors".to_owned());
        let second = problems.report("no descriptors".to_owned());
        assert_eq!(problems.lines(), ["no descriptors (2 containers)"]);
        drop(first);
        assert_eq!(problems.lines(), ["no descriptors"]);
        drop(second);
        assert!(problems.lines().is_empty());
    }
}

//! How an update changes a list of CPUs or memory nodes: what one container gives up must be given
//! up before another one gets it.

use crate::effective::parse_set;

/// A change of a list, in the order in which those of several containers are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetChange {
    /// Numbers are given up, and none is added.
    Shrinks,
    /// Numbers are given up, and others are added.
    Moves,
    /// The list stays, or is not set, or cannot be read.
    Stays,
    /// Numbers are added.
    Grows,
}

impl SetChange {
    /// Compares a list with the one that replaces it. An empty list before has all numbers.
    pub fn of(before: &str, after: &str) -> Self {
        let (Some(before), Some(after)) = (parse_set(before), parse_set(after)) else {
            return Self::Stays;
        };
        if after.is_empty() || before == after {
            Self::Stays
        } else if before.is_empty() || after.is_subset(&before) {
            Self::Shrinks
        } else if before.is_subset(&after) {
            Self::Grows
        } else {
            Self::Moves
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_comes_first() {
        for (before, after, expected) in [
            ("0-3", "0-1", SetChange::Shrinks),
            ("", "0-1", SetChange::Shrinks),
            ("0-1", "1-2", SetChange::Moves),
            ("0-1", "", SetChange::Stays),
            ("0,1", "0-1", SetChange::Stays),
            ("x", "0-1", SetChange::Stays),
            ("0-1", "0-3", SetChange::Grows),
        ] {
            assert_eq!(SetChange::of(before, after), expected, "{before} {after}");
        }
        assert!(SetChange::Shrinks < SetChange::Moves && SetChange::Moves < SetChange::Stays);
        assert!(SetChange::Stays < SetChange::Grows);
    }
}

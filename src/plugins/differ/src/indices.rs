//! The list of indices of the command line.

use std::{ops::Deref, str::FromStr};

/// Indices in the order in which a runtime calls them, two digits each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indices(Vec<String>);

/// Error of a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IndicesError {
    /// An entry is no index.
    #[error("{0:?} is not a number from 0 to 99")]
    Number(String),
    /// One index has nothing to compare with.
    #[error("at least two different indices are needed")]
    TooFew,
}

impl FromStr for Indices {
    type Err = IndicesError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| {
            let number = text.trim().parse::<u8>().ok().filter(|number| *number < 100);
            number.ok_or_else(|| IndicesError::Number(text.to_owned()))
        };
        let mut numbers = list.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        match numbers.len() {
            0 | 1 => Err(IndicesError::TooFew),
            _ => Ok(Self(numbers.iter().map(|number| format!("{number:02}")).collect())),
        }
    }
}

impl Deref for Indices {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_two_or_more_indices() {
        let parse = |list: &str| list.parse::<Indices>().map(|indices| indices.0);
        assert_eq!(parse("0,99").unwrap(), ["00", "99"]);
        assert_eq!(parse("99, 00,20,0").unwrap(), ["00", "20", "99"]);
        assert_eq!(parse("7"), Err(IndicesError::TooFew));
        assert_eq!(parse("7,07"), Err(IndicesError::TooFew));
        for (list, word) in [("", ""), ("1,x", "x"), ("1,100", "100"), ("1,-1", "-1")] {
            assert_eq!(parse(list), Err(IndicesError::Number(word.to_owned())));
        }
    }
}

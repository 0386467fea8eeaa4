//! An error with its causes as one line, which is all that an engine shows.

use std::error::Error;

/// The error and what caused it, from the outside in. A cause that is told already is not told
/// twice.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_told = cause.to_string();
        if !told.contains(&cause_told) {
            told = format!("{told}: {cause_told}");
        }
        next = cause.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Told(&'static str, #[source] Option<Box<Told>>);

    #[test]
    fn each_cause_once() {
        let nested = Told("a", Some(Box::new(Told("b: c", Some(Box::new(Told("c", None)))))));
        assert_eq!(chain(&nested), "a: b: c");
        assert_eq!(chain(&Told("a", None)), "a");
    }
}

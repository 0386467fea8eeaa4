//! Formats an error with its causes as one line, since engines show one line.

use std::error::Error;

/// Returns the error followed by its causes, outermost first. A cause is left out if the text
/// already contains it.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Nested(&'static str, #[source] Option<Box<Nested>>);

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let nested = Nested("a", Some(Box::new(Nested("b: c", Some(Box::new(Nested("c", None)))))));
        assert_eq!(chain(&nested), "a: b: c");
        assert_eq!(chain(&Nested("a", None)), "a");
    }
}

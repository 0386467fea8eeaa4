//! Names of containers in messages.

use nri_values::printable;

/// Limit of the containers that a message names: a longer list would hide the rest of the message.
const MAX_NAMED: usize = 5;

/// Returns the name and the short id of a container, or one of them if that is all it has.
pub(crate) fn name_and_id(name: &str, id: &str) -> String {
    // Engines show the first 12 characters of an id.
    let short: String = id.chars().take(12).collect();
    match name {
        "" => printable(&short).into_owned(),
        name if name == id => printable(name).into_owned(),
        name => format!("{} ({})", printable(name), printable(&short)),
    }
}

/// Returns `-` for an empty text.
pub(crate) fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Joins the first of many names, with the number of the others.
pub(crate) fn few(all: &[String]) -> String {
    let named = all.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let names = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned);
        assert_eq!(few(&names[..2]), "a, b");
        assert_eq!(few(&names), "a, b, c, d, e and 2 more");
        let id = "4ccfaadb11e3bcec99c9cd40947d521d6dee1fe45b3ebab8baf9508f95f699e6";
        assert_eq!(name_and_id("web", id), "web (4ccfaadb11e3)");
        assert_eq!([name_and_id("", id), name_and_id("c1", "c1")], ["4ccfaadb11e3", "c1"]);
    }
}

//! The name that was meant.

/// Least similarity of two names, between 0 and 1, by the edits that lead from one to the other.
const SIMILAR: f64 = 0.6;

/// Returns the name that is most similar to `name`, if any is similar at all. Of two that are, the
/// one that begins like `name`.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .filter(|known| strsim::normalized_damerau_levenshtein(name, known) >= SIMILAR)
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_meant() {
        let names = ["mode", "pods", "disable", "plugin_path", "plugin_request_timeout"];
        for (name, expected) in [
            ("modus", Some("mode")),
            ("disabled", Some("disable")),
            ("plugin_paht", Some("plugin_path")),
            ("request_timeout", Some("plugin_request_timeout")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), expected, "{name}");
        }
        assert_eq!(nearest("x", []), None);
    }
}

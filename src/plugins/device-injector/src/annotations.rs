//! Which annotation of a pod applies to a container.

use std::collections::HashMap;

/// Returns the value of the annotation that applies to a container, and its key. The most specific
/// one applies: for the container, for the pod, and without a suffix. Of two that are equally
/// specific, the one with the earlier of the keys applies.
pub(crate) fn applicable<'a>(
    annotations: &'a HashMap<String, String>,
    keys: &[&str],
    container: &str,
) -> Option<(&'a str, &'a str)> {
    [format!("/container.{container}"), "/pod".to_owned(), String::new()]
        .iter()
        .flat_map(|suffix| keys.iter().map(move |key| format!("{key}{suffix}")))
        .find_map(|key| annotations.get_key_value(&key))
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_annotation_applies_and_then_the_first_key() {
        let mut annotations = HashMap::new();
        let mut check = |added: &str, expected: &str| {
            annotations.insert(added.to_owned(), format!("value of {added}"));
            let found = applicable(&annotations, &["new", "old"], "c0");
            assert_eq!(found, Some((expected, format!("value of {expected}").as_str())));
        };
        check("old", "old");
        check("new", "new");
        check("old/pod", "old/pod");
        check("new/pod", "new/pod");
        check("new/container.c1", "new/pod");
        check("old/container.c0", "old/container.c0");
        check("new/container.c0", "new/container.c0");
        assert_eq!(applicable(&annotations, &["other"], "c0"), None);
    }
}

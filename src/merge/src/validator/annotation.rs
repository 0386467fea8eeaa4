//! Annotations of a pod that configure the validator: lookup by scope, and parsing of booleans and
//! of lists of plugin names.

use nri_api::PluginName;
use nri_api::proto::PodSandbox;

/// Returns the value of an annotation for a container: that of `KEY/container.NAME`, else of
/// `KEY/pod`, else of `KEY`.
pub(super) fn effective<'a>(pod: &'a PodSandbox, key: &str, container: &str) -> Option<&'a str> {
    [format!("{key}/container.{container}"), format!("{key}/pod"), key.to_owned()]
        .iter()
        .find_map(|key| pod.annotations.get(key))
        .map(String::as_str)
}

/// Parses a boolean in the spellings of Go's `strconv.ParseBool`.
pub(super) fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a YAML list of plugin names, in block form (`- a`) or flow form (`[a, "b"]`). An empty
/// text and `null` are the empty list.
///
/// The parser knows only the part of YAML that plugin names need. A value with anything else (tags,
/// anchors, escapes, nested lists) is invalid: the container is refused instead of created without
/// a plugin that the pod requires.
pub(super) fn parse_names(text: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> =
        text.lines().map(without_comment).filter(|l| !l.trim().is_empty()).collect();
    let joined = lines.join(" ");
    match joined.trim() {
        "" | "~" | "null" | "Null" | "NULL" => Some(Vec::new()),
        flow if flow.starts_with('[') => flow_list(flow),
        _ => block_list(&lines),
    }
}

fn without_comment(line: &str) -> &str {
    let comment = line
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|at| line[..*at].chars().next_back().is_none_or(char::is_whitespace));
    comment.map_or(line, |at| &line[..at])
}

fn flow_list(flow: &str) -> Option<Vec<String>> {
    let inner = flow.strip_prefix('[')?.strip_suffix(']')?.trim();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner
        .strip_suffix(',')
        .unwrap_or(inner)
        .split(',')
        .map(|item| parse_name(item.trim()))
        .collect()
}

fn block_list(lines: &[&str]) -> Option<Vec<String>> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let item_indent = indent(lines.first()?);
    lines
        .iter()
        .map(|line| {
            let aligned = line.get(item_indent..).filter(|_| indent(line) == item_indent)?;
            let item = aligned.strip_prefix('-')?;
            item.starts_with([' ', '\t']).then(|| parse_name(item.trim()))?
        })
        .collect()
}

fn parse_name(scalar: &str) -> Option<String> {
    let quoted = |quote| scalar.strip_prefix(quote).and_then(|s: &str| s.strip_suffix(quote));
    let text = quoted('"').or_else(|| quoted('\'')).unwrap_or(scalar);
    PluginName::parse(text).ok().map(|name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_names_are_read_from_block_and_flow_lists() {
        for (text, expected) in [
            ("[ plugin ]", Some(vec!["plugin"])),
            ("[a, \"10-b\", 'c.d',]", Some(vec!["a", "10-b", "c.d"])),
            ("[a,\n # why\n b] # two", Some(vec!["a", "b"])),
            ("- a\n- \"b\"\n", Some(vec!["a", "b"])),
            ("\n  - a # first\n  -   b", Some(vec!["a", "b"])),
            ("", Some(vec![])),
            ("[]", Some(vec![])),
            (" null ", Some(vec![])),
            ("a", None),
            ("a, b", None),
            ("[a", None),
            ("[a]]", None),
            ("[a,,b]", None),
            ("[,]", None),
            ("- a\n  - b", None),
            ("-a", None),
            ("- - a", None),
            ("- a: b", None),
            ("- !!str a", None),
            ("- 'a", None),
            ("- é", None),
            ("é- a\n- b", None),
        ] {
            let expected =
                expected.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(parse_names(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_narrower_scope_takes_precedence() {
        let mut pod = PodSandbox::new();
        let mut check = |key: &str, expected: &str| {
            pod.annotations.insert(key.to_owned(), key.to_owned());
            assert_eq!(effective(&pod, "k", "c"), Some(expected));
            assert_eq!(effective(&pod, "other", "c"), None);
        };
        check("k", "k");
        check("k/pod", "k/pod");
        check("k/container.x", "k/pod");
        check("k/container.c", "k/container.c");
    }
}

//! Differences of two values, a line each.

use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, TextDiff, capture_diff_slices};

/// Returns a line for each member that was created, updated or deleted.
pub(crate) fn changes(from: &Value, to: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), from, to, &mut found);
    found
}

/// Returns the changed lines of two texts, with some lines around them.
pub(crate) fn changed_lines(from: &str, to: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(from, to);
    let text = diff.unified_diff().to_string();
    text.lines().map(str::to_owned).collect()
}

fn compare(path: &mut Vec<String>, from: &Value, to: &Value, found: &mut Vec<String>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => compare_objects(path, from, to, found),
        (Value::Array(from), Value::Array(to)) => compare_lists(path, from, to, found),
        _ if from == to => {}
        _ => found.push(line("update", path, Some(from), Some(to))),
    }
}

fn compare_objects(
    path: &mut Vec<String>,
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    found: &mut Vec<String>,
) {
    for (name, old) in from {
        path.push(name.clone());
        match to.get(name) {
            Some(new) => compare(path, old, new, found),
            None => found.push(line("delete", path, Some(old), None)),
        }
        path.pop();
    }
    for (name, new) in to.iter().filter(|(name, _)| !from.contains_key(*name)) {
        path.push(name.clone());
        found.push(line("create", path, None, Some(new)));
        path.pop();
    }
}

/// Compares lists by their longest common subsequence, so that an entry which is inserted in front
/// of others is one difference. Entries that stand for each other are compared.
fn compare_lists(path: &mut Vec<String>, from: &[Value], to: &[Value], found: &mut Vec<String>) {
    let texts = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>();
    for part in capture_diff_slices(Algorithm::Myers, &texts(from), &texts(to)) {
        if matches!(part, DiffOp::Equal { .. }) {
            continue;
        }
        let (old, new) = (part.old_range(), part.new_range());
        let common = old.len().min(new.len());
        for (a, b) in old.clone().zip(new.clone()) {
            path.push(b.to_string());
            compare(path, &from[a], &to[b], found);
            path.pop();
        }
        for a in old.skip(common) {
            path.push(a.to_string());
            found.push(line("delete", path, Some(&from[a]), None));
            path.pop();
        }
        for b in new.skip(common) {
            path.push(b.to_string());
            found.push(line("create", path, None, Some(&to[b])));
            path.pop();
        }
    }
}

fn line(kind: &str, path: &[String], from: Option<&Value>, to: Option<&Value>) -> String {
    let text = |value: Option<&Value>| match value {
        None => "<nil>".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    format!("{kind}: [{}]: From: {} -> To: {}", path.join(" "), text(from), text(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_name_the_path() {
        let from = json!({"env": ["A=1", "B=2"], "linux": {"pids": 1, "cpu": {"shares": "2"}},
            "mounts": [{"source": "/a", "options": ["ro"]}]});
        let to = json!({"env": ["C=3", "A=1", "B=2"], "linux": {"pids": 7},
            "mounts": [{"source": "/a", "options": ["rw", "nosuid"]}], "args": ["sh"]});
        let expected = [
            "create: [env 0]: From: <nil> -> To: C=3",
            "update: [linux pids]: From: 1 -> To: 7",
            r#"delete: [linux cpu]: From: {"shares":"2"} -> To: <nil>"#,
            "update: [mounts 0 options 0]: From: ro -> To: rw",
            "create: [mounts 0 options 1]: From: <nil> -> To: nosuid",
            r#"create: [args]: From: <nil> -> To: ["sh"]"#,
        ];
        assert_eq!(changes(&from, &to), expected);
        let back = ["delete: [1]: From: b -> To: <nil>"];
        assert_eq!(changes(&json!(["a", "b", "c"]), &json!(["a", "c"])), back);
        assert!(changes(&from, &from).is_empty());
    }

    #[test]
    fn changed_lines_have_lines_around_them() {
        let lines = changed_lines("a: 1\nb: 2\n", "a: 1\nb: 3\n");
        assert_eq!(lines, ["@@ -1,2 +1,2 @@", " a: 1", "-b: 2", "+b: 3"]);
        assert!(changed_lines("a: 1\n", "a: 1\n").is_empty());
    }
}

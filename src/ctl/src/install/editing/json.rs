//! Edits of a JSON text through the syntax tree of `jsonc-parser`, which keeps order, comments and
//! unknown members. A new member gets the layout of that library.
//!
//! More is parsed than JSON, such as comments, which iSulad accepts. dockerd does not (see
//! `engines/docker.rs`).

use super::error::EditError;
use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode},
};
use serde_json::Value;

/// Returns all values. An empty text is an empty object, as engines read it.
pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let value = root(text)?.to_serde_value();
    value.filter(Value::is_object).ok_or_else(|| EditError::syntax(text, 0, "not an object"))
}

/// Returns the text with a value at a path.
pub(super) fn set(text: &str, at: &[String], value: &Value) -> Result<String, EditError> {
    let root = root(text)?;
    let Some((name, parents)) = at.split_last() else { return Ok(text.to_owned()) };
    let mut object = root.object_value_or_set();
    for (depth, name) in parents.iter().enumerate() {
        property(&object, name, depth == 0)?;
        let inner = object.object_value_or_create(name);
        object = inner.ok_or_else(|| EditError::not_a_table(&at[..=depth]))?;
    }
    match property(&object, name, parents.is_empty())? {
        Some(property) => property.set_value(input(value)),
        None => drop(object.append(name, input(value))),
    }
    Ok(root.to_string())
}

/// Returns the text without the value at a path.
pub(super) fn remove(text: &str, at: &[String]) -> Result<String, EditError> {
    let root = root(text)?;
    let Some((name, parents)) = at.split_last() else { return Ok(text.to_owned()) };
    let object = parents.iter().try_fold(root.object_value_or_set(), |o, n| o.object_value(n));
    if let Some(object) = object
        && let Some(property) = property(&object, name, parents.is_empty())?
    {
        property.remove();
    }
    Ok(root.to_string())
}

fn root(text: &str) -> Result<CstRootNode, EditError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| {
        EditError::syntax(text, error.range().start, &error.kind().to_string().to_lowercase())
    })
}

/// Returns the member of a name. A name that occurs twice is refused: engines differ in which value
/// they take. At the top, engines ignore letter case.
fn property(
    object: &CstObject,
    name: &str,
    is_top: bool,
) -> Result<Option<CstObjectProp>, EditError> {
    let is_same = |found: &str| found == name || is_top && found.eq_ignore_ascii_case(name);
    let found: Vec<_> = object
        .properties()
        .into_iter()
        .filter_map(|property| Some((property.decoded_name()?, property)))
        .filter(|(found, _)| is_same(found))
        .collect();
    match found.as_slice() {
        [] => Ok(None),
        [(found, property)] if found == name => Ok(Some(property.clone())),
        _ => Err(EditError::Ambiguous { name: name.to_owned() }),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members.iter().map(|(name, value)| (name.clone(), input(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_member_is_added_and_removed_in_the_layout_of_its_neighbours() {
        for (before, at, after) in [
            ("", "a", "{\n  \"a\": \"x\"\n}\n"),
            ("{}", "r.n", "{\n  \"r\": {\n    \"n\": \"x\"\n  }\n}"),
            ("{\n\t\"b\": 1\n}\n", "a", "{\n\t\"b\": 1,\n\t\"a\": \"x\"\n}\n"),
            (
                "{\r\n   \"b\": {\r\n      \"c\": 1\r\n   }\r\n}",
                "b.n",
                "{\r\n   \"b\": {\r\n      \"c\": 1,\r\n      \"n\": \"x\"\r\n   }\r\n}",
            ),
            (
                "{\n  // of b\n  \"b\": 1 // one\n  /* end */\n}\n",
                "a",
                "{\n  // of b\n  \"b\": 1, // one\n  \"a\": \"x\"\n  /* end */\n}\n",
            ),
        ] {
            let changed = set(before, &path(at), &json!("x")).unwrap();
            assert_eq!(changed, after, "{before}");
            let end = if at == "b.n" { path(at) } else { path(at)[..1].to_vec() };
            let removed = remove(&changed, &end).unwrap();
            let wanted = if before.is_empty() { json!({}) } else { parse(before).unwrap() };
            assert_eq!(parse(&removed).unwrap(), wanted, "{removed}");
        }
        let replaced =
            set("{\"a\": [1,\n2], \"c\": 1}", &path("a"), &json!({"b": [true]})).unwrap();
        assert_eq!(parse(&replaced).unwrap(), json!({"a": {"b": [true]}, "c": 1}));
        assert_eq!(remove("{\"a\": 1}", &path("a.c")).unwrap(), "{\"a\": 1}");
    }

    #[test]
    fn numbers_stay_as_they_were_written() {
        let text = "{\n  \"mtu\": 1.4e3,\n  \"big\": 123456789012345678901234567890\n}\n";
        let changed = set(text, &path("a"), &json!(1)).unwrap();
        assert!(changed.contains("1.4e3") && changed.contains("123456789012345678901234567890"));
    }

    #[test]
    fn errors_name_the_place_or_the_member() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).and_then(|_| set(text, &path("a.b"), &json!(1))).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check("{\n  \"a\": 1", "line 1, column 1: unterminated object");
        check(" [1]", "line 1, column 1: not an object");
        check("{\"a\": 1}", "a is not a table or object");
        for text in ["{\"a\": 1, \"a\": {}}", "{\"A\": {}}"] {
            check(text, "\"a\" occurs twice, or in another letter case than engines use");
        }
        check(
            "{\"a\": {\"b\": 1, \"b\": 2}}",
            "\"b\" occurs twice, or in another letter case than engines use",
        );
    }
}

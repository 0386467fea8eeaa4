//! Edits of a TOML text. A new table is appended to the text; everything else is edited by
//! `toml_edit`, and unchanged lines that it would write differently, such as lines that end in
//! CRLF, are taken from the original text.
//!
//! `toml_edit` would place a new table between two others, before comments that belong to the table
//! above.

use super::{error::EditError, lines};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value as TomlValue};

/// Returns all values.
pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let failed = |error: toml::de::Error| {
        EditError::syntax(text, error.span().map_or(0, |span| span.start), error.message())
    };
    toml::from_str(text).map_err(failed)
}

/// Returns the text with a value at a path. A table that exists keeps its other members.
pub(super) fn set(text: &str, at: &[String], value: &Value) -> Result<String, EditError> {
    let mut document = document(text)?;
    let Some((name, parents)) = at.split_last() else { return Ok(text.to_owned()) };
    let is_table = item(&mut document, at).is_some_and(|item| item.is_table_like());
    if let Some(members) = value.as_object().filter(|_| is_table) {
        let set_member = |text: String, (name, value): (&String, &Value)| {
            set(&text, &[at, std::slice::from_ref(name)].concat(), value)
        };
        return members.iter().try_fold(text.to_owned(), set_member);
    }
    let has_header = |item: &mut Item| !item.as_table().is_some_and(Table::is_implicit);
    let has_parent = item(&mut document, parents).is_some_and(has_header);
    if value.is_object() || !has_parent {
        let appended = append(text, at, value);
        // Not possible below inline tables, and for members of tables that have dotted keys.
        if parse(&appended).is_ok() {
            return Ok(appended);
        }
    }
    let mut parent = document.as_item_mut();
    for (depth, name) in parents.iter().enumerate() {
        let table = parent.as_table_like_mut();
        let table = table.ok_or_else(|| EditError::not_a_table(&at[..depth]))?;
        parent = table.entry(name).or_insert(Item::Value(InlineTable::new().into()));
    }
    let table = parent.as_table_like_mut().ok_or_else(|| EditError::not_a_table(parents))?;
    let mut value = toml_value(value);
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    match table.get_mut(name) {
        Some(old) => *old = Item::Value(value),
        None => drop(table.insert(name, Item::Value(value))),
    }
    Ok(lines::merge(text, &document.to_string()))
}

/// Returns the text without the value at a path.
pub(super) fn remove(text: &str, at: &[String]) -> Result<String, EditError> {
    let mut document = document(text)?;
    if let Some((name, parents)) = at.split_last()
        && let Some(parent) = item(&mut document, parents)
    {
        let removed = parent.as_table_like_mut().and_then(|table| table.remove(name));
        // The header was needed for this value only: the other members have headers of their own.
        if removed.is_some_and(|removed| removed.is_value())
            && let Some(table) = parent.as_table_mut()
            && !table.is_empty()
            && table.iter().all(|(_, item)| item.is_table())
        {
            table.set_implicit(true);
        }
    }
    Ok(lines::merge(text, &document.to_string()))
}

fn document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        EditError::syntax(text, error.span().map_or(0, |span| span.start), error.message())
    })
}

fn item<'a>(document: &'a mut DocumentMut, at: &[String]) -> Option<&'a mut Item> {
    at.iter().try_fold(document.as_item_mut(), |item, name| item.as_table_like_mut()?.get_mut(name))
}

/// Returns the text with a new table at its end.
fn append(text: &str, at: &[String], value: &Value) -> String {
    let nested = at
        .iter()
        .rev()
        .fold(value.clone(), |value, name| Value::Object(Map::from_iter([(name.clone(), value)])));
    let added = nested.as_object().map(table).unwrap_or_default();
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let gap = match text {
        "" => String::new(),
        text if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    format!("{text}{gap}{}", DocumentMut::from(added).to_string().replace('\n', newline))
}

fn table(members: &Map<String, Value>) -> Table {
    let item = |value: &Value| match value {
        Value::Object(members) => Item::Table(table(members)),
        value => Item::Value(toml_value(value)),
    };
    let mut table: Table = Table::new();
    table.extend(members.iter().map(|(name, value)| (name.as_str(), item(value))));
    table.set_implicit(!members.is_empty() && members.values().all(Value::is_object));
    table
}

fn toml_value(value: &Value) -> TomlValue {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::Array(items) => items.iter().map(toml_value).collect::<Array>().into(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name, toml_value(value)))
            .collect::<InlineTable>()
            .into(),
        // TOML has no null, and no engine needs one.
        Value::Null => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    /// Sets a value, and removes it again.
    fn check(before: &str, at: &str, value: &Value, after: &str) {
        let changed = set(before, &path(at), value).unwrap();
        assert_eq!(changed, after, "{before:?}");
        let end = if before.contains("a =") || before.contains("[a") { at } else { "a" };
        let removed = remove(&changed, &path(end)).unwrap();
        assert_eq!(parse(&removed).unwrap(), parse(before).unwrap(), "{removed:?}");
        let is_comment = |line: &&str| line.starts_with('#');
        let comments = |text| str::lines(text).filter(is_comment).collect::<Vec<_>>();
        assert_eq!(comments(&removed), comments(before));
    }

    #[test]
    fn a_new_value_goes_into_its_table() {
        let x = &json!("x");
        check("", "a.b", x, "[a]\nb = \"x\"\n");
        check("# c\n", "a.b", x, "# c\n\n[a]\nb = \"x\"\n");
        check("# c", "a.b", x, "# c\n\n[a]\nb = \"x\"\n");
        check("[a]\nc = 1", "a.b", x, "[a]\nc = 1\nb = \"x\"\n");
        check("[a]\nc = 1\n\n# of d\n[d]\n", "a.b", x, "[a]\nc = 1\nb = \"x\"\n\n# of d\n[d]\n");
        check("a = { c = 1 } # d\n", "a.b", x, "a = { c = 1 , b = \"x\" } # d\n");
        check("[a.c]\nd = 1\n# of c\n", "a.b", x, "[a.c]\nd = 1\n# of c\n\n[a]\nb = \"x\"\n");
        check(
            "[a.c]\n# of c\n[z]\n",
            "a.b",
            &json!({"t": {"u": [1]}}),
            "[a.c]\n# of c\n[z]\n\n[a.b.t]\nu = [1]\n",
        );
        check(
            "# c\r\n[z]\r\ny = \"\"\"1\r\n2\"\"\"\r\n",
            "a.b",
            x,
            "# c\r\n[z]\r\ny = \"\"\"1\r\n2\"\"\"\r\n\r\n[a]\r\nb = \"x\"\r\n",
        );
        assert_eq!(set("a.c = 1\n", &path("a.b"), x).unwrap(), "a.c = 1\na.b = \"x\"\n");
        let replaced = set("a = 'y' # d\r\n[e]\r\n", &path("a"), x).unwrap();
        assert_eq!(replaced, "a = \"x\" # d\r\n[e]\r\n");
    }

    #[test]
    fn only_differing_values_of_a_table_are_written() {
        let value = json!({"b": 1, "c": 3, "d": {"e": 4}});
        let changed = set("[a]\nb = 1 # one\nc = 2\n", &path("a"), &value).unwrap();
        assert_eq!(changed, "[a]\nb = 1 # one\nc = 3\n\n[a.d]\ne = 4\n");
    }

    #[test]
    fn comments_of_removed_tables_stay() {
        let text = "# 1\n[a]\n# 2\nb = 1 # of b\n# 3\n[a.c]\nd = 1\n# 4\n";
        assert_eq!(remove(text, &path("a")).unwrap(), "# 1\n# 2\n# 3\n# 4\n");
        assert_eq!(remove(text, &path("none.at.all")).unwrap(), text);
    }

    #[test]
    fn errors_name_the_place_or_the_table() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("a = \n").starts_with("line 1, column 5: "), "{}", error("a = \n"));
        assert!(error("[a]\nb = 1\nb = 2\n").starts_with("line 3, column 1: duplicate key"));
        for text in ["\na = 1\n", "\na = [1]\n"] {
            let error = set(text, &path("a.b"), &json!(1)).unwrap_err();
            assert_eq!(error.to_string(), "a is not a table or object");
        }
    }
}

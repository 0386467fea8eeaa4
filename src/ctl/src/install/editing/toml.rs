//! Edits of a TOML text. `toml_edit` places values; unchanged lines that it would write
//! differently, such as lines that end in CRLF, are taken from the original text.
//!
//! New tables come last in the file: a new table between two others would be placed before comments
//! that belong to the table above.

use super::{
    error::{EditError, TextPosition},
    lines,
};
use serde_json::{Map, Value};
use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue,
};

/// Position of a table after all tables of a file. Half of the range is left for new tables.
const LAST: isize = isize::MAX / 2;

/// A TOML text.
#[derive(Debug, Clone)]
pub(crate) struct Toml {
    original: String,
    document: DocumentMut,
    /// Position of the table that was added last; [`LAST`] if none was.
    position: isize,
}

impl Default for Toml {
    fn default() -> Self {
        Self { original: String::new(), document: DocumentMut::new(), position: LAST }
    }
}

impl Toml {
    /// Parses a text.
    pub(crate) fn parse(text: &str) -> Result<Self, EditError> {
        let document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
            let position =
                TextPosition::of(text, e.span().map_or(0, |span| span.start.min(text.len())));
            EditError::Syntax { position, message: e.message().trim_end().replace('\n', ", ") }
        })?;
        Ok(Self { original: text.to_owned(), document, position: LAST })
    }

    /// Returns the edited text.
    pub(crate) fn text(&self) -> String {
        lines::merge(&self.original, &self.document.to_string())
    }

    /// Returns all values.
    pub(crate) fn value(&self) -> Value {
        table_value(self.document.as_table())
    }

    /// Returns the value at a path.
    pub(crate) fn get(&self, path: &[String]) -> Option<Value> {
        let mut item = self.document.as_item();
        for name in path {
            item = item.as_table_like()?.get(name)?;
        }
        item_value(item)
    }

    /// Sets the value at a path. Returns the number of parent tables that were created.
    pub(crate) fn set(&mut self, path: &[String], value: &Value) -> Result<usize, EditError> {
        let Some((last, tables)) = path.split_last() else { return Ok(0) };
        let mut at: &mut dyn TableLike = self.document.as_table_mut();
        let mut created = 0;
        let mut is_inline = false;
        for (depth, name) in tables.iter().enumerate() {
            if at.get(name).is_none() {
                created += 1;
                at.insert(name, if is_inline { inline_table() } else { implicit_table() });
            }
            let item = at.get_mut(name);
            let not_a_table = || {
                let position = position(&self.original, &path[..=depth]);
                EditError::NotATable { position, path: path[..=depth].join(".") }
            };
            is_inline = is_inline || item.as_ref().is_some_and(|item| item.is_inline_table());
            at = item.and_then(|item| item.as_table_like_mut()).ok_or_else(not_a_table)?;
        }
        let before = self.position;
        let mut position = before + 1;
        insert(at, last, value, is_inline, &mut position);
        // A table that now has a value needs a header, which is written after all tables.
        if !is_inline
            && let Some(table) = table_at(self.document.as_table_mut(), tables)
            && table.is_implicit()
            && table.iter().any(|(_, item)| item.is_value())
        {
            table.set_implicit(false);
            table.set_position(Some(before + 1));
        }
        self.position = position;
        self.keep_trailing_comments_above(path);
        Ok(created)
    }

    /// Removes the value at a path, if it exists.
    pub(crate) fn remove(&mut self, path: &[String]) {
        let Some((last, tables)) = path.split_last() else { return };
        let mut at: &mut dyn TableLike = self.document.as_table_mut();
        for name in tables {
            match at.get_mut(name).and_then(|item| item.as_table_like_mut()) {
                Some(table) => at = table,
                None => return,
            }
        }
        at.remove(last);
        // A header that `set` has added is removed again if the table has only tables.
        if let Some(table) = table_at(self.document.as_table_mut(), tables)
            && table.position().is_some_and(|p| p > LAST)
            && !table.is_empty()
            && table.iter().all(|(_, item)| item.is_table())
        {
            table.set_implicit(true);
        }
    }

    /// Keeps comments at the end of the file above a table that is added there.
    fn keep_trailing_comments_above(&mut self, path: &[String]) {
        let trailing = self.document.trailing().as_str().unwrap_or_default().to_owned();
        if trailing.trim().is_empty() {
            return;
        }
        let mut end = path.len();
        // The first header that is written may be that of a parent table.
        while end > 0 {
            if let Some(table) = first_table_at(self.document.as_table_mut(), &path[..end])
                && !table.is_implicit()
                && table.position().is_some_and(|p| p > LAST)
            {
                let blank = if trailing.ends_with('\n') { "\n" } else { "\n\n" };
                table.decor_mut().set_prefix(format!("{trailing}{blank}"));
                self.document.set_trailing("");
                return;
            }
            end -= 1;
        }
    }
}

/// Returns the position of a value in a text. The text is parsed again, since a `DocumentMut` does
/// not keep positions.
fn position(text: &str, path: &[String]) -> TextPosition {
    let document = toml_edit::Document::parse(text).ok();
    let mut item = document.as_ref().map(|document| document.as_item());
    for name in path {
        item = item.and_then(|item| item.get(name));
    }
    TextPosition::of(text, item.and_then(Item::span).map_or(0, |span| span.start))
}

fn inline_table() -> Item {
    Item::Value(TomlValue::InlineTable(InlineTable::new()))
}

fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Returns the table at a path, unless it is written inline.
fn table_at<'a>(top: &'a mut Table, path: &[String]) -> Option<&'a mut Table> {
    let mut table = top;
    for name in path {
        table = table.get_mut(name)?.as_table_mut()?;
    }
    Some(table)
}

/// Returns the table at a path; of an array of tables, the first table.
fn first_table_at<'a>(top: &'a mut Table, path: &[String]) -> Option<&'a mut Table> {
    let (last, tables) = path.split_last()?;
    match table_at(top, tables)?.get_mut(last)? {
        Item::Table(table) => Some(table),
        Item::ArrayOfTables(tables) => tables.get_mut(0),
        Item::None | Item::Value(_) => None,
    }
}

/// Sets the value of a name. A table that exists keeps its other members. Each table of a new list
/// gets its own header (`[[name]]`), so that an administrator can add another table.
fn insert(
    at: &mut dyn TableLike,
    name: &str,
    value: &Value,
    is_inline: bool,
    position: &mut isize,
) {
    if let Some(maps) = maps(value)
        && !is_inline
        && at.get(name).is_none()
    {
        let mut tables = ArrayOfTables::new();
        for map in maps {
            let mut table = Table::new();
            *position += 1;
            table.set_position(Some(*position));
            for (name, value) in map {
                insert(&mut table, name, value, false, position);
            }
            tables.push(table);
        }
        at.insert(name, Item::ArrayOfTables(tables));
        return;
    }
    let Value::Object(map) = value else {
        let mut new = toml_value(value);
        match at.get_mut(name) {
            Some(Item::Value(old)) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            _ => drop(at.insert(name, Item::Value(new))),
        }
        return;
    };
    if at.get(name).is_none_or(|item| !item.is_table_like()) {
        let item = if is_inline {
            inline_table()
        } else {
            let mut table = Table::new();
            *position += 1;
            table.set_position(Some(*position));
            Item::Table(table)
        };
        at.insert(name, item);
    }
    let Some(item) = at.get_mut(name) else { return };
    let is_inline = is_inline || item.is_inline_table();
    let Some(table) = item.as_table_like_mut() else { return };
    for (name, value) in map {
        insert(table, name, value, is_inline, position);
    }
}

/// Returns the tables of a list; `None` if the list is empty or has other elements.
fn maps(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    let items = value.as_array().filter(|items| !items.is_empty())?;
    items.iter().map(Value::as_object).collect()
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
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name, toml_value(value)))
            .collect::<InlineTable>()
            .into(),
        // TOML has no null, and no engine needs one.
        Value::Null => "".into(),
    }
}

fn item_value(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(json_value(value)),
        Item::Table(table) => Some(table_value(table)),
        Item::ArrayOfTables(tables) => {
            Some(tables.iter().map(|table| table_value(table)).collect::<Vec<_>>().into())
        }
    }
}

fn table_value(table: &dyn TableLike) -> Value {
    let members =
        table.iter().filter_map(|(name, item)| Some((name.to_owned(), item_value(item)?)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn json_value(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => text.value().as_str().into(),
        TomlValue::Integer(number) => (*number.value()).into(),
        TomlValue::Float(number) => (*number.value()).into(),
        TomlValue::Boolean(flag) => (*flag.value()).into(),
        TomlValue::Datetime(time) => time.value().to_string().into(),
        TomlValue::Array(items) => items.iter().map(json_value).collect::<Vec<_>>().into(),
        TomlValue::InlineTable(table) => table_value(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn check_set(before: &str, at: &str, value: Value, after: &str) {
        let mut toml = Toml::parse(before).unwrap();
        toml.set(&path(at), &value).unwrap();
        assert_eq!(toml.text(), after, "{before:?}");
        assert_eq!(toml.get(&path(at)), Some(value));
    }

    #[test]
    fn a_new_value_goes_into_its_table() {
        let x = || json!("x");
        check_set("", "a", x(), "a = \"x\"\n");
        check_set("", "a.b", x(), "[a]\nb = \"x\"\n");
        check_set("# c\n", "a.b", x(), "# c\n\n[a]\nb = \"x\"\n");
        check_set("# c", "a.b", x(), "# c\n\n[a]\nb = \"x\"\n");
        check_set("[a]\nc = 1", "a.b", x(), "[a]\nc = 1\nb = \"x\"\n");
        check_set(
            "[a]\nc = 1\n\n# of d\n[d]\n",
            "a.b",
            x(),
            "[a]\nc = 1\nb = \"x\"\n\n# of d\n[d]\n",
        );
        check_set("a.c = 1\n", "a.b", x(), "a.c = 1\na.b = \"x\"\n");
        check_set("a = { c = 1 } # d\n", "a.b", x(), "a = { c = 1 , b = \"x\" } # d\n");
        check_set("a = 'y' # d\r\n[e]\r\n", "a", x(), "a = \"x\" # d\r\n[e]\r\n");
        check_set("[a.c]\nd = 1\n# of c\n", "a.b", x(), "[a.c]\nd = 1\n# of c\n\n[a]\nb = \"x\"\n");
        check_set(
            "[a.c]\n# of c\n[z]\n",
            "a.b",
            json!({"t": {"u": [1]}}),
            "[a.c]\n# of c\n[z]\n\n[a.b]\n\n[a.b.t]\nu = [1]\n",
        );
        check_set(
            "# c\n\n[a]\nb = 1\n",
            "p",
            json!([{"m": "x", "n": []}, {"m": "y"}]),
            "# c\n\n[a]\nb = 1\n\n[[p]]\nm = \"x\"\nn = []\n\n[[p]]\nm = \"y\"\n",
        );
        check_set("# c\n", "p", json!([{"m": 1}]), "# c\n\n[[p]]\nm = 1\n");
        check_set("p = []\n", "p", json!([{"m": 1}]), "p = [{ m = 1 }]\n");
        check_set(
            "m = \"\"\"a\r\n\r\nb\"\"\"\r\n",
            "n",
            json!(true),
            "m = \"\"\"a\r\n\r\nb\"\"\"\r\nn = true\r\n",
        );
    }

    #[test]
    fn only_differing_values_of_a_table_are_written() {
        let mut toml = Toml::parse("[a]\nb = 1 # one\nc = 2\n").unwrap();
        toml.set(&path("a"), &json!({"b": 1, "c": 3, "d": {"e": 4}})).unwrap();
        assert_eq!(toml.text(), "[a]\nb = 1 # one\nc = 3\n\n[a.d]\ne = 4\n");
    }

    #[test]
    fn comments_of_removed_tables_stay() {
        let mut toml =
            Toml::parse("# 1\n[a]\n# 2\nb = 1 # of b\n# 3\n[a.c]\nd = 1\n# 4\n").unwrap();
        toml.remove(&path("a.b"));
        toml.remove(&path("a.c"));
        toml.remove(&path("a"));
        toml.remove(&path("none.at.all"));
        assert_eq!(toml.text(), "# 1\n# 2\n# 3\n# 4\n");
    }

    #[test]
    fn errors_have_line_and_column() {
        let error = |text: &str| Toml::parse(text).unwrap_err().to_string();
        assert!(error("a = \n").starts_with("line 1, column 5: "), "{}", error("a = \n"));
        assert!(
            error("[a]\nb = 1\nb = 2\n").starts_with("line 3, column 1: duplicate key"),
            "{}",
            error("[a]\nb = 1\nb = 2\n")
        );
        for text in ["\na = 1\n", "\na = [1]\n"] {
            let error = Toml::parse(text).unwrap().set(&path("a.b"), &json!(1)).unwrap_err();
            assert_eq!(error.to_string(), "line 2, column 5: a is not a table or object");
        }
    }
}

//! Small changes of a TOML text. `toml_edit` knows where a value belongs; lines that it would write
//! otherwise than they were, such as those that end in CRLF, are taken from the file as it was.
//!
//! New tables come last in the file: between others they would come before comments that belong to
//! the table above.

use super::document::{DocumentError, Place};
use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue};

/// Positions behind every table of a file.
const LAST: isize = isize::MAX / 2;

/// A TOML text.
#[derive(Debug, Clone)]
pub(crate) struct Toml {
    original: String,
    document: DocumentMut,
    /// Of the newest table.
    position: isize,
}

impl Default for Toml {
    fn default() -> Self {
        Self { original: String::new(), document: DocumentMut::new(), position: LAST }
    }
}

impl Toml {
    /// Takes a text.
    pub(crate) fn parse(text: &str) -> Result<Self, DocumentError> {
        let document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
            let place = Place::of(text, e.span().map_or(0, |span| span.start.min(text.len())));
            DocumentError::Syntax { place, message: e.message().trim_end().replace('\n', ", ") }
        })?;
        Ok(Self { original: text.to_owned(), document, position: LAST })
    }

    /// The text as it is now.
    pub(crate) fn text(&self) -> String {
        merge_lines(&self.original, &self.document.to_string())
    }

    /// All of it as values.
    pub(crate) fn value(&self) -> Value {
        table_value(self.document.as_table())
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &[String]) -> Option<Value> {
        let mut item = self.document.as_item();
        for name in path {
            item = item.as_table_like()?.get(name)?;
        }
        item_value(item)
    }

    /// Puts a value at a path; gives how many tables on the way to it were made.
    pub(crate) fn set(&mut self, path: &[String], value: &Value) -> Result<usize, DocumentError> {
        let Some((last, tables)) = path.split_last() else { return Ok(0) };
        let mut at: &mut dyn TableLike = self.document.as_table_mut();
        let mut made = 0;
        let mut inline = false;
        for (depth, name) in tables.iter().enumerate() {
            if at.get(name).is_none() {
                made += 1;
                at.insert(name, if inline { inline_table() } else { implicit_table() });
            }
            let item = at.get_mut(name);
            let not_a_table = || {
                let place = place(&self.original, &path[..=depth]);
                DocumentError::NotATable { place, path: path[..=depth].join(".") }
            };
            inline = inline || item.as_ref().is_some_and(|item| item.is_inline_table());
            at = item.and_then(|item| item.as_table_like_mut()).ok_or_else(not_a_table)?;
        }
        let before = self.position;
        let mut position = before + 1;
        insert(at, last, value, inline, &mut position);
        if !inline
            && let Some(table) = table_at(self.document.as_table_mut(), tables)
            && table.is_implicit()
            && table.iter().any(|(_, item)| item.is_value())
        {
            table.set_implicit(false);
            table.set_position(Some(before + 1));
        }
        self.position = position;
        self.trailing_comments_first(path);
        Ok(made)
    }

    /// Takes away what is at a path, if anything is.
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
        if let Some(table) = table_at(self.document.as_table_mut(), tables)
            && table.position().is_some_and(|p| p > LAST)
            && !table.is_empty()
            && table.iter().all(|(_, item)| item.is_table())
        {
            table.set_implicit(true);
        }
    }

    /// Comments at the end of the file belong to what is above them, not to what we put there.
    fn trailing_comments_first(&mut self, path: &[String]) {
        let trailing = self.document.trailing().as_str().unwrap_or_default().to_owned();
        if trailing.trim().is_empty() {
            return;
        }
        let mut end = path.len();
        // The header that is written first may be that of the table around the value.
        while end > 0 {
            if let Some(table) = table_at(self.document.as_table_mut(), &path[..end])
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

/// Where a value is; a document that can be changed does not know.
fn place(text: &str, path: &[String]) -> Place {
    let document = toml_edit::Document::parse(text).ok();
    let mut item = document.as_ref().map(|document| document.as_item());
    for name in path {
        item = item.and_then(|item| item.get(name));
    }
    Place::of(text, item.and_then(Item::span).map_or(0, |span| span.start))
}

fn inline_table() -> Item {
    Item::Value(TomlValue::InlineTable(InlineTable::new()))
}

fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// The table of a path, where it is written as one.
fn table_at<'a>(top: &'a mut Table, path: &[String]) -> Option<&'a mut Table> {
    let mut table = top;
    for name in path {
        table = table.get_mut(name)?.as_table_mut()?;
    }
    Some(table)
}

/// Puts a value there; into a table that is there already, only what differs.
fn insert(at: &mut dyn TableLike, name: &str, value: &Value, inline: bool, position: &mut isize) {
    let Value::Object(map) = value else {
        let mut new = plain(value);
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
        let item = if inline {
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
    let inline = inline || item.is_inline_table();
    let Some(table) = item.as_table_like_mut() else { return };
    for (name, value) in map {
        insert(table, name, value, inline, position);
    }
}

fn plain(value: &Value) -> TomlValue {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::Array(items) => items.iter().map(plain).collect::<Array>().into(),
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name, plain(value))).collect::<InlineTable>().into()
        }
        // There is no such value in TOML, nor in what we write.
        Value::Null => "".into(),
    }
}

fn item_value(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(plain_value(value)),
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

fn plain_value(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => text.value().as_str().into(),
        TomlValue::Integer(number) => (*number.value()).into(),
        TomlValue::Float(number) => (*number.value()).into(),
        TomlValue::Boolean(flag) => (*flag.value()).into(),
        TomlValue::Datetime(time) => time.value().to_string().into(),
        TomlValue::Array(items) => items.iter().map(plain_value).collect::<Vec<_>>().into(),
        TomlValue::InlineTable(table) => table_value(table),
    }
}

/// The new text with every line that is in both as it was in the old one, and no comment of the old
/// one lost.
fn merge_lines(old: &str, new: &str) -> String {
    let newline = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let bare =
        |lines: &[&str]| lines.iter().map(|line| strip_end(line).to_owned()).collect::<Vec<_>>();
    let (old_bare, new_bare) = (bare(&old), bare(&new));
    let mut merged: Vec<String> = Vec::new();
    let keep = |range: std::ops::Range<usize>, merged: &mut Vec<String>| {
        merged.extend(
            old[range].iter().filter(|l| l.trim_start().starts_with('#')).map(|l| (*l).to_owned()),
        );
    };
    let add = |range: std::ops::Range<usize>, merged: &mut Vec<String>| {
        merged.extend(new_bare[range].iter().map(|line| format!("{line}{newline}")));
    };
    for op in capture_diff_slices(Algorithm::Myers, &old_bare, &new_bare) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                merged
                    .extend(old[old_index..old_index + len].iter().map(|line| (*line).to_owned()));
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                keep(old_index..old_index + old_len, &mut merged)
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                add(new_index..new_index + new_len, &mut merged)
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                keep(old_index..old_index + old_len, &mut merged);
                add(new_index..new_index + new_len, &mut merged);
            }
        }
    }
    let last = merged.len().saturating_sub(1);
    for line in &mut merged[..last] {
        if !line.ends_with('\n') {
            line.push_str(newline);
        }
    }
    merged.concat()
}

fn strip_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
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
    fn what_is_added_comes_where_it_belongs() {
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
            "m = \"\"\"a\r\n\r\nb\"\"\"\r\n",
            "n",
            json!(true),
            "m = \"\"\"a\r\n\r\nb\"\"\"\r\nn = true\r\n",
        );
    }

    #[test]
    fn a_table_gets_only_what_it_lacks() {
        let mut toml = Toml::parse("[a]\nb = 1 # one\nc = 2\n").unwrap();
        toml.set(&path("a"), &json!({"b": 1, "c": 3, "d": {"e": 4}})).unwrap();
        assert_eq!(toml.text(), "[a]\nb = 1 # one\nc = 3\n\n[a.d]\ne = 4\n");
    }

    #[test]
    fn no_comment_is_lost() {
        let mut toml =
            Toml::parse("# 1\n[a]\n# 2\nb = 1 # gone with it\n# 3\n[a.c]\nd = 1\n# 4\n").unwrap();
        toml.remove(&path("a.b"));
        toml.remove(&path("a.c"));
        toml.remove(&path("a"));
        toml.remove(&path("none.at.all"));
        assert_eq!(toml.text(), "# 1\n# 2\n# 3\n# 4\n");
    }

    #[test]
    fn what_cannot_be_edited_is_refused_with_its_place() {
        let error = |text: &str| Toml::parse(text).unwrap_err().to_string();
        assert!(error("a = \n").starts_with("line 1, column 5: "), "{}", error("a = \n"));
        assert!(
            error("[a]\nb = 1\nb = 2\n").starts_with("line 3, column 1: duplicate key"),
            "{}",
            error("[a]\nb = 1\nb = 2\n")
        );
        for text in ["\na = 1\n", "\na = [1]\n"] {
            let error = Toml::parse(text).unwrap().set(&path("a.b"), &json!(1)).unwrap_err();
            assert_eq!(error.to_string(), "line 2, column 5: a is no table");
        }
    }
}

//! Edits of a JSON text: only the bytes of a member change, so that layout, order, comments and
//! unknown members stay.
//!
//! `jsonc-parser` reports the positions of members; this module replaces or inserts text at them.
//! The editor of that library breaks one-line objects into several lines and drops blank lines, so
//! `uninstall` could not restore the text byte by byte.

use super::error::{EditError, TextPosition};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, ParseResult,
    ast::{Object, ObjectProp, Value as Node},
    common::Ranged,
    parse_to_ast,
};
use serde_json::Value;

/// Indentation of a level if the text has no indentation to copy.
const DEFAULT_UNIT: &str = "  ";

/// Syntax that is parsed: JSON with comments (iSulad accepts them; dockerd does not, see
/// `engines/docker.rs`).
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A JSON text with an object at its top.
#[derive(Debug, Clone)]
pub(super) struct Json {
    text: String,
}

/// Result of a lookup: the object that contains the member at the end of a path, or else the
/// deepest object of the path that exists.
struct Lookup<'a> {
    object: &'a Object<'a>,
    /// Index in the path of the name that was looked up in this object.
    depth: usize,
    /// Index of the member in the object; `None` if the object lacks it.
    member: Option<usize>,
}

impl Json {
    /// Parses a text. An empty text is an empty object, as engines read it.
    pub(super) fn parse(text: &str) -> Result<Self, EditError> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        top(text)?;
        Ok(Self { text: text.to_owned() })
    }

    /// Returns the edited text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns all values. If a name occurs twice, the last value is returned; lookups and
    /// edits of such a name are refused.
    pub(super) fn value(&self) -> Value {
        top(&self.text).map(|top| Node::Object(top).into()).unwrap_or_default()
    }

    /// Whether the text has comments.
    pub(super) fn has_comments(&self) -> bool {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: false };
        let comments = parse(&self.text, &collect).ok().and_then(|parsed| parsed.comments);
        comments.is_some_and(|comments| !comments.is_empty())
    }

    /// Returns the value at a path.
    pub(super) fn get(&self, path: &[String]) -> Result<Option<Value>, EditError> {
        let top = top(&self.text)?;
        match self.find(&top, path) {
            Ok(found) => Ok(found.member().map(|member| member.value.clone().into())),
            Err(EditError::NotATable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value at a path. Returns the number of parent objects that were created.
    pub(super) fn set(&mut self, path: &[String], value: &Value) -> Result<usize, EditError> {
        let top = top(&self.text)?;
        let found = self.find(&top, path)?;
        let Some((name, rest)) = path[found.depth..].split_first() else { return Ok(0) };
        let (range, added) = match found.member() {
            Some(member) => {
                let (start, layout) = (member.value.start(), Layout::of(&self.text, &top));
                let text = layout.render(value, line_indent(&self.text, start));
                (start..member.value.end(), text)
            }
            None => {
                let nested = rest.iter().rev().fold(value.clone(), |inner, name| {
                    Value::Object([(name.clone(), inner)].into_iter().collect())
                });
                self.insertion(&top, found.object, name, &nested)
            }
        };
        let created = if found.member.is_some() { 0 } else { rest.len() };
        self.text.replace_range(range, &added);
        Ok(created)
    }

    /// Removes the member at a path, if it exists.
    pub(super) fn remove(&mut self, path: &[String]) -> Result<(), EditError> {
        let top = top(&self.text)?;
        let found = match self.find(&top, path) {
            Err(EditError::NotATable { .. }) => return Ok(()),
            found => found?,
        };
        let (Some(member), Some(index)) = (found.member(), found.member) else { return Ok(()) };
        let members = &found.object.properties;
        let before = index.checked_sub(1).and_then(|index| members.get(index));
        let range = match (before, members.get(index + 1)) {
            (Some(before), _) => before.end()..member.end(),
            (None, Some(after)) => member.start()..after.start(),
            (None, None) => found.object.start() + 1..found.object.end() - 1,
        };
        self.text.replace_range(range, "");
        Ok(())
    }

    fn find<'a>(&self, top: &'a Object<'a>, path: &[String]) -> Result<Lookup<'a>, EditError> {
        let mut object = top;
        for (depth, name) in path.iter().enumerate() {
            let member = self.member(object, name, depth == 0)?;
            if member.is_none() || depth + 1 == path.len() {
                return Ok(Lookup { object, depth, member });
            }
            match member.map(|member| &object.properties[member].value) {
                Some(Node::Object(inner)) => object = inner,
                other => {
                    let at = other.map_or(0, Ranged::start);
                    let position = TextPosition::of(&self.text, at);
                    return Err(EditError::NotATable { position, path: path[..=depth].join(".") });
                }
            }
        }
        Ok(Lookup { object, depth: path.len(), member: None })
    }

    /// Returns the index of a member in an object. A name that occurs twice is refused: engines
    /// differ in which value they take. At the top, engines ignore letter case.
    fn member(
        &self,
        object: &Object<'_>,
        name: &str,
        is_top: bool,
    ) -> Result<Option<usize>, EditError> {
        let is_same = |member: &ObjectProp<'_>| match is_top {
            true => member.name.as_str().eq_ignore_ascii_case(name),
            false => member.name.as_str() == name,
        };
        let mut found = object.properties.iter().enumerate().filter(|(_, member)| is_same(member));
        let first = found.next();
        match found.next().or(first.filter(|(_, member)| member.name.as_str() != name)) {
            Some((_, member)) => Err(EditError::Ambiguous {
                position: TextPosition::of(&self.text, member.start()),
                name: member.name.as_str().to_owned(),
            }),
            None => Ok(first.map(|(index, _)| index)),
        }
    }

    /// Returns the range and the text of a new last member, in the layout of its neighbours.
    fn insertion(
        &self,
        top: &Object<'_>,
        object: &Object<'_>,
        name: &str,
        value: &Value,
    ) -> (std::ops::Range<usize>, String) {
        let (text, key) = (&self.text, Value::from(name).to_string());
        let mut layout = Layout::of(text, top);
        let Some(last) = object.properties.last() else {
            let members = [(name.to_owned(), value.clone())].into_iter().collect();
            let base = line_indent(text, object.start());
            return (object.start()..object.end(), layout.render(&Value::Object(members), base));
        };
        let before = &text[..last.start()];
        // The white space before the previous member is repeated before the new one.
        let mut space = &before[before.trim_end().len()..];
        layout.colon = &text[last.name.end()..last.value.start()];
        let child = match space.rsplit_once('\n') {
            Some((_, child)) => {
                let unit = child.strip_prefix(line_indent(text, object.end() - 1));
                layout.unit = Some(unit.filter(|unit| !unit.is_empty()).unwrap_or(DEFAULT_UNIT));
                child
            }
            None => {
                layout.unit = None;
                if object.properties.len() == 1 && space.is_empty() && layout.colon.ends_with(' ') {
                    space = " ";
                }
                ""
            }
        };
        let (colon, value) = (layout.colon, layout.render(value, child));
        (last.end()..last.end(), format!(",{space}{key}{colon}{value}"))
    }
}

impl<'a> Lookup<'a> {
    fn member(&self) -> Option<&'a ObjectProp<'a>> {
        self.object.properties.get(self.member?)
    }
}

/// Layout of a text.
struct Layout<'a> {
    newline: &'static str,
    /// Indentation that a deeper level adds; `None`: everything is on one line.
    unit: Option<&'a str>,
    /// Text between a name and its value.
    colon: &'a str,
}

impl<'a> Layout<'a> {
    fn of(text: &'a str, top: &Object<'_>) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let Some(first) = top.properties.first() else {
            return Self { newline, unit: Some(DEFAULT_UNIT), colon: ": " };
        };
        let indent = line_indent(text, first.start());
        let unit = if indent.is_empty() { DEFAULT_UNIT } else { indent };
        let is_one_line = !text[top.start()..top.end()].contains('\n');
        let colon = &text[first.name.end()..first.value.start()];
        Self { newline, unit: (!is_one_line).then_some(unit), colon }
    }

    /// Writes a value that begins on a line with the indentation `base`.
    fn render(&self, value: &Value, base: &str) -> String {
        let Value::Object(members) = value else { return value.to_string() };
        if members.is_empty() {
            return "{}".to_owned();
        }
        let space = if self.colon.ends_with(' ') { " " } else { "" };
        let (child, open, between, close) = match self.unit {
            Some(unit) => {
                let (child, newline) = (format!("{base}{unit}"), self.newline);
                let open = format!("{newline}{child}");
                (child, open.clone(), format!(",{open}"), format!("{newline}{base}"))
            }
            None => (String::new(), String::new(), format!(",{space}"), String::new()),
        };
        let member = |(name, value): (&String, &Value)| {
            format!("{}{}{}", Value::from(&**name), self.colon, self.render(value, &child))
        };
        let members: Vec<String> = members.iter().map(member).collect();
        format!("{{{open}{}{close}}}", members.join(&between))
    }
}

fn parse<'a>(text: &'a str, collect: &CollectOptions) -> Result<ParseResult<'a>, EditError> {
    parse_to_ast(text, collect, &SYNTAX).map_err(|error| EditError::Syntax {
        position: TextPosition::of(text, error.range().start),
        message: error.kind().to_string().to_lowercase(),
    })
}

/// Parses a text to the object at its top.
fn top(text: &str) -> Result<Object<'_>, EditError> {
    match parse(text, &CollectOptions::default())?.value {
        Some(Node::Object(object)) => Ok(object),
        other => {
            let position = TextPosition::of(text, other.map_or(0, |value| value.start()));
            Err(EditError::Syntax { position, message: "not an object".to_owned() })
        }
    }
}

/// Returns the white space that begins the line of the byte at offset `at`.
fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[text[..at].rfind('\n').map_or(0, |n| n + 1)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn check_set(before: &str, at: &str, value: Value, after: &str) {
        let mut json = Json::parse(before).unwrap();
        json.set(&path(at), &value).unwrap();
        assert_eq!(json.text(), after, "{before}");
        assert_eq!(json.get(&path(at)).unwrap(), Some(value), "{after}");
    }

    #[test]
    fn a_new_member_has_the_layout_of_its_neighbours() {
        let a = || json!("x");
        check_set("{}", "a", a(), "{\n  \"a\": \"x\"\n}");
        check_set("", "a", a(), "{\n  \"a\": \"x\"\n}\n");
        check_set(
            "{ }\n",
            "r.n.path",
            a(),
            "{\n  \"r\": {\n    \"n\": {\n      \"path\": \"x\"\n    }\n  }\n}\n",
        );
        check_set("{\"b\":1}", "a", a(), "{\"b\":1,\"a\":\"x\"}");
        check_set("{\"b\": 1}", "r.n", a(), "{\"b\": 1, \"r\": {\"n\": \"x\"}}");
        check_set("{ \"b\": 1 }", "a", a(), "{ \"b\": 1, \"a\": \"x\" }");
        check_set(
            "{\n\t\"b\": 1\n}\n",
            "r.n",
            a(),
            "{\n\t\"b\": 1,\n\t\"r\": {\n\t\t\"n\": \"x\"\n\t}\n}\n",
        );
        check_set(
            "{\r\n   \"b\" : {}\r\n}",
            "b.n",
            a(),
            "{\r\n   \"b\" : {\r\n      \"n\" : \"x\"\r\n   }\r\n}",
        );
        check_set(
            "{\n  \"b\": {\"c\": 1, \"d\": 2}}",
            "b.n",
            a(),
            "{\n  \"b\": {\"c\": 1, \"d\": 2, \"n\": \"x\"}}",
        );
        check_set("{\"a\": [1,\n2], \"c\": 1}", "a", a(), "{\"a\": \"x\", \"c\": 1}");
        check_set("{\"s\\\"\": \"}\", \"a\": null}", "a", a(), "{\"s\\\"\": \"}\", \"a\": \"x\"}");
        check_set("{\n}\n", "a", json!(["b"]), "{\n  \"a\": [\"b\"]\n}\n");
    }

    #[test]
    fn removing_a_new_member_restores_the_text() {
        for text in [
            "{\"b\":1}",
            "{\n\t\"b\": 1\n}\n",
            "{\r\n  \"b\": {\"c\": [1, {\"d\": \"}\"}]}\r\n}",
            "{\"b\": {\"c\": 1}, \"e\": \"\\u00fc\\\\\"}",
        ] {
            for at in ["a", "r.n.path", "b"] {
                let mut json = Json::parse(text).unwrap();
                let before = json.get(&path(at)).unwrap();
                let created = json.set(&path(at), &json!({"x": 1})).unwrap();
                match before {
                    Some(before) => drop(json.set(&path(at), &before).unwrap()),
                    None => json.remove(&path(at)[..path(at).len() - created]).unwrap(),
                }
                // `b` exists in every text. Its value is written again, and may get another layout.
                if at != "b" {
                    assert_eq!(json.text(), text, "{at}");
                }
                assert_eq!(json.value(), Json::parse(text).unwrap().value());
            }
        }
    }

    #[test]
    fn a_member_is_removed_from_every_position() {
        let check = |before: &str, at: &str, after: &str| {
            let mut json = Json::parse(before).unwrap();
            json.remove(&path(at)).unwrap();
            assert_eq!(json.text(), after);
        };
        check("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "a", "{\n  \"b\": 2,\n  \"c\": 3\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "b", "{\n  \"a\": 1,\n  \"c\": 3\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "c", "{\n  \"a\": 1,\n  \"b\": 2\n}");
        check("{\n  \"a\": 1\n}", "a", "{}");
        check("{\"a\": 1}", "b.c", "{\"a\": 1}");
        check("{\"a\": 1}", "a.c", "{\"a\": 1}");
    }

    #[test]
    fn comments_stay() {
        let text = "{\n  // of b\n  \"b\": 1 // one\n  /* end */\n}\n";
        let mut json = Json::parse(text).unwrap();
        assert!(json.has_comments() && !Json::parse("{\"a\": \"//\"}").unwrap().has_comments());
        json.set(&path("a"), &json!("x")).unwrap();
        for comment in ["// of b\n", "// one\n", "/* end */\n"] {
            assert!(json.text().contains(comment), "{}", json.text());
        }
        assert_eq!(json.value(), json!({"a": "x", "b": 1}));
        json.remove(&path("a")).unwrap();
        assert_eq!(json.text(), text);
    }

    #[test]
    fn errors_have_line_and_column() {
        let check = |text: &str, expected: &str| {
            let error = Json::parse(text).and_then(|json| json.get(&path("a.b"))).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check("{\"a\": 1,}", "line 1, column 8: trailing commas are not allowed");
        check(" [1]", "line 1, column 2: not an object");
        check("{\"a\": 1", "line 1, column 1: unterminated object");
        check("{\"a\": 1} x", "line 1, column 10: text cannot contain more than one json value");
        check("{a: 1}", "line 1, column 2: expected string for object property");
        check(
            "{\"a\": 1,\n \"a\": 2}",
            "line 2, column 2: \"a\" occurs twice, or in another letter case than engines use",
        );
        check(
            "{\"A\": 1}",
            "line 1, column 2: \"A\" occurs twice, or in another letter case than engines use",
        );
        check(
            "{\"a\": {\"b\":1,\"b\":2}}",
            "line 1, column 14: \"b\" occurs twice, or in another letter case than engines use",
        );
        let error = Json::parse("{\"a\": 1}").unwrap().set(&path("a.b"), &json!(1)).unwrap_err();
        assert_eq!(error.to_string(), "line 1, column 7: a is not a table or object");
    }
}

//! Small changes of a JSON text: only the bytes of a member change, so that layout, order and
//! everything unknown stay as they are.
//!
//! `serde_json` judges whether the text is JSON; places are found in a text that is known to be
//! valid.

use super::document::{DocumentError, Place};
use serde_json::Value;
use std::ops::Range;

/// A JSON text with an object at its top.
#[derive(Debug, Clone)]
pub(crate) struct Json {
    text: String,
}

struct Member {
    name: String,
    /// Where the quote before the name is.
    key: usize,
    /// Behind the quote after it.
    key_end: usize,
    value: Range<usize>,
}

struct Object {
    open: usize,
    members: Vec<Member>,
    close: usize,
}

impl Json {
    /// Takes a text; an empty one is an empty object, as engines take it.
    pub(crate) fn parse(text: &str) -> Result<Self, DocumentError> {
        if text.trim().is_empty() {
            return Ok(Self { text: "{}\n".to_owned() });
        }
        let value: Value = serde_json::from_str(text).map_err(|e| {
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            DocumentError::Syntax { place: Place { line: e.line(), column: e.column() }, message }
        })?;
        if !value.is_object() {
            let place = Place::of(text, skip_space(text, 0));
            return Err(DocumentError::Syntax { place, message: "not an object".to_owned() });
        }
        Ok(Self { text: text.to_owned() })
    }

    /// The text as it is now.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// All of it as values. Of names that occur twice the last counts, as it does for engines.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &[String]) -> Result<Option<Value>, DocumentError> {
        let mut at = skip_space(&self.text, 0);
        for (depth, name) in path.iter().enumerate() {
            if self.byte(at) != b'{' {
                return Ok(None);
            }
            let object = object(&self.text, at);
            match self.member(&object, name, depth == 0)? {
                Some(member) => at = member.value.start,
                None => return Ok(None),
            }
        }
        let end = skip_value(&self.text, at);
        Ok(serde_json::from_str(&self.text[at..end]).ok())
    }

    /// Puts a value at a path; gives how many objects on the way to it were made.
    pub(crate) fn set(&mut self, path: &[String], value: &Value) -> Result<usize, DocumentError> {
        let mut at = skip_space(&self.text, 0);
        for (depth, name) in path.iter().enumerate() {
            if self.byte(at) != b'{' {
                let path = path[..depth].join(".");
                return Err(DocumentError::NotATable { place: Place::of(&self.text, at), path });
            }
            let object = object(&self.text, at);
            if let Some(member) = self.member(&object, name, depth == 0)? {
                at = member.value.start;
                continue;
            }
            let rest = &path[depth + 1..];
            let nested = rest.iter().rev().fold(value.clone(), |inner, name| {
                Value::Object(std::iter::once((name.clone(), inner)).collect())
            });
            self.insert(&object, name, &nested);
            return Ok(rest.len());
        }
        let end = skip_value(&self.text, at);
        let style = Style::around(&self.text, at);
        self.text.replace_range(at..end, &style.render(value, &style.base));
        Ok(0)
    }

    /// Takes away what is at a path, if anything is.
    pub(crate) fn remove(&mut self, path: &[String]) -> Result<(), DocumentError> {
        let mut at = skip_space(&self.text, 0);
        for (depth, name) in path.iter().enumerate() {
            if self.byte(at) != b'{' {
                return Ok(());
            }
            let object = object(&self.text, at);
            let Some(member) = self.member(&object, name, depth == 0)? else { return Ok(()) };
            if depth + 1 < path.len() {
                at = member.value.start;
                continue;
            }
            let index = object.members.iter().position(|m| m.key == member.key).unwrap_or_default();
            let range = match (
                index.checked_sub(1).map(|i| &object.members[i]),
                object.members.get(index + 1),
            ) {
                (Some(before), _) => before.value.end..member.value.end,
                (None, Some(after)) => member.key..after.key,
                (None, None) => object.open + 1..object.close,
            };
            self.text.replace_range(range, "");
        }
        Ok(())
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or_default()
    }

    /// The member of a name. Two of a name are refused: it is not for us to say which one an engine
    /// takes. At the top, engines do not tell upper from lower case.
    fn member<'a>(
        &self,
        object: &'a Object,
        name: &str,
        top: bool,
    ) -> Result<Option<&'a Member>, DocumentError> {
        let same =
            |m: &&Member| if top { m.name.eq_ignore_ascii_case(name) } else { m.name == name };
        let mut found = object.members.iter().filter(same);
        let first = found.next();
        let odd = found.next().or(first.filter(|m| m.name != name));
        match odd {
            Some(m) => Err(DocumentError::Ambiguous {
                place: Place::of(&self.text, m.key),
                name: m.name.clone(),
            }),
            None => Ok(first),
        }
    }

    fn insert(&mut self, object: &Object, name: &str, value: &Value) {
        let text = &self.text;
        let key = Value::from(name).to_string();
        let style = Style::around(text, object.open);
        let Some(last) = object.members.last() else {
            let inside = format!("{key}{}", style.colon);
            let whole = match &style.unit {
                Some(unit) => {
                    let child = format!("{}{unit}", style.base);
                    let (newline, base) = (style.newline, &style.base);
                    format!(
                        "{{{newline}{child}{inside}{}{newline}{base}}}",
                        style.render(value, &child)
                    )
                }
                None => format!("{{{inside}{}}}", style.render(value, "")),
            };
            self.text.replace_range(object.open..=object.close, &whole);
            return;
        };
        let space = &text[text[..last.key].trim_end().len()..last.key];
        let colon = &text[last.key_end..last.value.start];
        let multi = space.contains('\n');
        let child = if multi { space.rsplit('\n').next().unwrap_or_default() } else { "" };
        let unit = if !multi {
            None
        } else {
            let base = line_indent(text, object.close);
            Some(
                child
                    .strip_prefix(base)
                    .filter(|u| !u.is_empty())
                    .unwrap_or(DEFAULT_UNIT)
                    .to_owned(),
            )
        };
        let space = if space.is_empty() && colon.ends_with(' ') && object.members.len() == 1 {
            " "
        } else {
            space
        };
        let style =
            Style { unit, colon: colon.to_owned(), base: child.to_owned(), newline: style.newline };
        let added = format!(",{space}{key}{colon}{}", style.render(value, child));
        self.text.insert_str(last.value.end, &added);
    }
}

/// Indentation where the text shows none.
const DEFAULT_UNIT: &str = "  ";

/// How a text is laid out.
struct Style {
    newline: &'static str,
    /// Indentation of the line that an object begins on.
    base: String,
    /// What a deeper level adds; `None`: all on one line.
    unit: Option<String>,
    colon: String,
}

impl Style {
    fn around(text: &str, at: usize) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let top = object(text, skip_space(text, 0));
        let one_line = !top.members.is_empty() && !text[top.open..top.close].contains('\n');
        let first = top.members.first();
        let unit = first.map(|m| line_indent(text, m.key)).filter(|unit| !unit.is_empty());
        let colon = first.map_or(": ", |m| &text[m.key_end..m.value.start]).to_owned();
        Self {
            newline,
            base: line_indent(text, at).to_owned(),
            unit: (!one_line).then(|| unit.unwrap_or(DEFAULT_UNIT).to_owned()),
            colon,
        }
    }

    fn render(&self, value: &Value, base: &str) -> String {
        let Value::Object(map) = value else { return value.to_string() };
        if map.is_empty() {
            return "{}".to_owned();
        }
        let child = self.unit.as_ref().map(|unit| format!("{base}{unit}"));
        let members = map.iter().map(|(name, value)| {
            let (name, colon) = (Value::from(name.as_str()), &self.colon);
            format!("{name}{colon}{}", self.render(value, child.as_deref().unwrap_or_default()))
        });
        let members: Vec<String> = members.collect();
        let newline = self.newline;
        match child {
            Some(child) => {
                let joined = members.join(&format!(",{newline}{child}"));
                format!("{{{newline}{child}{joined}{newline}{base}}}")
            }
            None => {
                let space = if self.colon.ends_with(' ') { " " } else { "" };
                format!("{{{}}}", members.join(&format!(",{space}")))
            }
        }
    }
}

/// White space before the first other character of the line of `at`.
fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[text[..at].rfind('\n').map_or(0, |n| n + 1)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn skip_space(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches([' ', '\t', '\r', '\n']).len()
}

/// Behind the string that begins at `at`.
fn skip_string(text: &str, at: usize) -> usize {
    let mut escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(at + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// Behind the value that begins at `at`.
fn skip_value(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return if depth == 1 { at + 1 } else { at },
            b'}' | b']' => depth -= 1,
            b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The object that begins at `open`.
fn object(text: &str, open: usize) -> Object {
    let mut members = Vec::new();
    let mut at = skip_space(text, open + 1);
    while text.as_bytes().get(at) == Some(&b'"') {
        let key = at;
        let key_end = skip_string(text, key);
        let name = serde_json::from_str(&text[key..key_end]).unwrap_or_default();
        let start = skip_space(text, skip_space(text, key_end) + 1);
        let end = skip_value(text, start);
        members.push(Member { name, key, key_end, value: start..end });
        at = skip_space(text, end);
        if text.as_bytes().get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
    }
    Object { open, members, close: at }
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
    fn what_is_added_looks_like_its_neighbours() {
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
    fn what_was_added_goes_without_a_trace() {
        for text in [
            "{\"b\":1}",
            "{\n\t\"b\": 1\n}\n",
            "{\r\n  \"b\": {\"c\": [1, {\"d\": \"}\"}]}\r\n}",
            "{\"b\": {\"c\": 1}, \"e\": \"\\u00fc\\\\\"}",
        ] {
            for at in ["a", "r.n.path", "b"] {
                let mut json = Json::parse(text).unwrap();
                let before = json.get(&path(at)).unwrap();
                let made = json.set(&path(at), &json!({"x": 1})).unwrap();
                match before {
                    Some(before) => drop(json.set(&path(at), &before).unwrap()),
                    None => json.remove(&path(at)[..path(at).len() - made]).unwrap(),
                }
                if at != "b" {
                    assert_eq!(json.text(), text, "{at}");
                }
                assert_eq!(json.value(), Json::parse(text).unwrap().value());
            }
        }
    }

    #[test]
    fn members_go_from_every_place() {
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
    fn what_cannot_be_edited_is_refused_with_its_place() {
        let check = |text: &str, expected: &str| {
            let error = Json::parse(text).and_then(|json| json.get(&path("a.b"))).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check("{\n  // x\n}", "line 2, column 3: key must be a string");
        check("{\"a\": 1,}", "line 1, column 9: trailing comma");
        check(" [1]", "line 1, column 2: not an object");
        check("{\"a\": 1", "line 1, column 7: EOF while parsing an object");
        check("{\"a\": 1} x", "line 1, column 10: trailing characters");
        check(
            "{\"a\": 1,\n \"a\": 2}",
            "line 2, column 2: \"a\" is there twice, or written otherwise than usual",
        );
        check(
            "{\"A\": 1}",
            "line 1, column 2: \"A\" is there twice, or written otherwise than usual",
        );
        check(
            "{\"a\": {\"b\":1,\"b\":2}}",
            "line 1, column 14: \"b\" is there twice, or written otherwise than usual",
        );
        let error = Json::parse("{\"a\": 1}").unwrap().set(&path("a.b"), &json!(1)).unwrap_err();
        assert_eq!(error.to_string(), "line 1, column 7: a is no table");
    }
}

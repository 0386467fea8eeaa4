//! YAML to JSON values, from the parser's events: one document, string keys, no custom tags, no
//! merge keys.
//!
//! Depth and expanded size are bounded here, so that a file of a few bytes with nested aliases
//! costs no more than one without.

use super::scalar;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::HashMap};

/// Levels of lists and mappings.
const MAX_DEPTH: usize = 64;
/// Bytes of all values, aliases expanded; each value counts [`NODE`] beside its text.
const MAX_SIZE: usize = 64 << 20;
const NODE: usize = 64;

/// Text that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct InvalidYaml {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// Parses one document; an empty one is null.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, InvalidYaml> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let good = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let column = good.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        InvalidYaml {
            line: good.matches('\n').count() + 1,
            column,
            message: "not UTF-8".to_owned(),
        }
    })?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let (event, span) = event.map_err(|e| invalid(e.marker(), e.info()))?;
        builder.take(event).map_err(|message| invalid(&span.start, &message))?;
    }
    Ok(builder.document.unwrap_or_default())
}

fn invalid(marker: &Marker, message: &str) -> InvalidYaml {
    InvalidYaml { line: marker.line(), column: marker.col() + 1, message: message.to_owned() }
}

/// A value with what it counts for.
#[derive(Clone)]
struct Sized {
    value: Value,
    size: usize,
}

/// A list or mapping that is not complete yet.
struct Open {
    anchor: usize,
    size: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    /// With the key that waits for its value.
    Mapping(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Sized>,
    total: usize,
    document: Option<Value>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) if self.document.is_some() => {
                Err("more than one document".to_owned())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                let Sized { value, size } = known.ok_or("an alias inside of what it stands for")?;
                self.count(size)?;
                self.place(value, size)
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.wants_key() && style == ScalarStyle::Plain && tag.is_none() && text == "<<"
                {
                    return Err("merge keys are not taken".to_owned());
                }
                let size = NODE + text.len();
                self.count(size)?;
                let value = if self.wants_key() {
                    text.into_owned().into()
                } else {
                    scalar_value(text, style, tag.as_deref())?
                };
                self.complete(value, size, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(anchor, tag, "seq", Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(anchor, tag, "map", Content::Mapping(Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { anchor, size, content } =
                    self.open.pop().ok_or("an end without a beginning")?;
                let value = match content {
                    Content::List(list) => list.into(),
                    Content::Mapping(mapping, _) => mapping.into(),
                };
                self.complete(value, size, anchor)
            }
        }
    }

    fn begin(
        &mut self,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        kind: &str,
        content: Content,
    ) -> Result<(), String> {
        if let Some(tag) = tag.filter(|t| !(t.is_yaml_core_schema() && t.suffix == kind)) {
            return Err(format!("tag {tag} is not taken"));
        }
        if self.wants_key() {
            return Err("a key that is no text".to_owned());
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} levels deep"));
        }
        self.count(NODE)?;
        self.open.push(Open { anchor, size: NODE, content });
        Ok(())
    }

    /// Takes a value that is complete, under its anchor if it has one.
    fn complete(&mut self, value: Value, size: usize, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            self.count(size)?;
            self.anchors.insert(anchor, Sized { value: value.clone(), size });
        }
        self.place(value, size)
    }

    fn place(&mut self, value: Value, size: usize) -> Result<(), String> {
        let Some(open) = self.open.last_mut() else {
            self.document = Some(value);
            return Ok(());
        };
        open.size += size;
        match &mut open.content {
            Content::List(list) => list.push(value),
            Content::Mapping(_, key @ None) => match value {
                Value::String(text) => *key = Some(text),
                _ => return Err("a key that is no text".to_owned()),
            },
            Content::Mapping(mapping, key @ Some(_)) => {
                let key = key.take().unwrap_or_default();
                if mapping.contains_key(&key) {
                    return Err(format!("the key {key:?} is there twice"));
                }
                mapping.insert(key, value);
            }
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Mapping(_, None), .. }))
    }

    fn count(&mut self, size: usize) -> Result<(), String> {
        self.total += size;
        if self.total > MAX_SIZE { Err("aliases expand to too much".to_owned()) } else { Ok(()) }
    }
}

fn scalar_value(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Value, String> {
    let tagged = match tag {
        None if style == ScalarStyle::Plain => return Ok(scalar::plain(&text)),
        None => return Ok(text.into_owned().into()),
        Some(tag) if tag.is_yaml_core_schema() => tag.suffix.as_str(),
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => "str",
        Some(tag) => return Err(format!("tag {tag} is not taken")),
    };
    let plain = scalar::plain(&text);
    match (tagged, &plain) {
        ("str", _) => Ok(text.into_owned().into()),
        ("null", Value::Null) | ("bool", Value::Bool(_)) | ("float", Value::Number(_)) => Ok(plain),
        ("int", Value::Number(n)) if n.is_i64() || n.is_u64() => Ok(plain),
        _ => Err(format!("{text:?} is not of the type !!{tagged}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Result<Value, &str>) {
        let found = parse(text.as_bytes()).map_err(|e| e.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn documents() {
        check("", Ok(json!(null)));
        check("---\n", Ok(json!(null)));
        check("\u{feff}a: b\n", Ok(json!({"a": "b"})));
        check("{\"a\": [1, \"x\\ny\", null]}", Ok(json!({"a": [1, "x\ny", null]})));
        check(
            "# a specification\na: 'it''s'\n1: 0660\nb:\n  - \"0660\"\n  - c: |\n      one\n      two\n    d: {e: [~, -1]}\n",
            Ok(
                json!({"a": "it's", "1": 432, "b": ["0660", {"c": "one\ntwo\n", "d": {"e": [null, -1]}}]}),
            ),
        );
        check("a: &x {b: 1}\nc: [*x, *x]\n", Ok(json!({"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]})));
        check("a: &k key\n*k : 1\n", Ok(json!({"a": "key", "key": 1})));
        check(
            "a: !!str 5\nb: !!int \"5\"\nc: !!seq []\nd: ! 5\n",
            Ok(json!({"a": "5", "b": 5, "c": [], "d": "5"})),
        );
    }

    #[test]
    fn what_is_not_taken() {
        check("a: 1\na: 2\n", Err(r#"line 2, column 4: the key "a" is there twice"#));
        check("a: 1\n---\nb: 2\n", Err("line 2, column 1: more than one document"));
        check("? [a]\n: 1\n", Err("line 1, column 3: a key that is no text"));
        check("a: &x [*x]\n", Err("line 1, column 8: an alias inside of what it stands for"));
        check("a: !thing 1\n", Err("line 1, column 4: tag !thing is not taken"));
        check("a: !!int x\n", Err(r#"line 1, column 4: "x" is not of the type !!int"#));
        check("a: &x {b: 1}\nc:\n  <<: *x\n", Err("line 3, column 3: merge keys are not taken"));
        for text in ["a: *x\n", "a: b: c\n", "a: [1", "a: \"b\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parse(b"a: \xff").unwrap_err().to_string(), "line 1, column 4: not UTF-8");
    }

    #[test]
    fn bombs_do_not_explode() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..60 {
            let last = format!("*a{}", i - 1);
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![last; 9].join(", ")));
        }
        assert!(parse(bomb.as_bytes()).unwrap_err().message.contains("expand"));
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 1000].join(", "));
        assert!(parse(long.as_bytes()).unwrap_err().message.contains("expand"));
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert!(parse(deep.as_bytes()).unwrap_err().message.contains("deep"));
        let fine = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(fine.as_bytes()).is_ok());
        let chain: String = (1..3000).map(|i| format!("{}- \n", " ".repeat(i))).collect();
        assert!(parse(chain.as_bytes()).is_err());
    }

    #[test]
    fn junk_does_no_harm() {
        let pieces = [
            "a", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "&x ", "*x", "!", "|\n", ">", "'",
            "\"", "\\", "? ", "#", "%", "---\n", "\t", ",", "é",
        ];
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            let _ = parse(text.as_bytes());
        }
    }
}

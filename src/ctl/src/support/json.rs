//! Masks secrets in JSON by its structure: a text ends where JSON says, an argument belongs to the
//! option before it, and a value to the name beside it.

use super::mask::Mask;
use serde_json::{Map, Value};

/// In place of a secret.
const MASKED: &str = "***";

/// Members that name what another member of the same object is the value of.
const NAMING: [&str; 3] = ["name", "field", "path"];
/// Members with such a value.
const NAMED: [&str; 3] = ["value", "before", "after"];

impl Mask {
    /// Returns a text of JSON, or lines of it, without secrets; `None` if it is none.
    pub(super) fn json(&self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        if !trimmed.starts_with(['{', '[']) {
            return None;
        }
        if let Ok(mut value) = serde_json::from_str::<Value>(trimmed) {
            self.value(&mut value);
            let is_pretty = trimmed.contains('\n');
            let masked = if is_pretty { format!("{value:#}") } else { value.to_string() };
            return Some(text.replacen(trimmed, &masked, 1));
        }
        None
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.apply(text),
            Value::Array(elements) => self.elements(elements),
            Value::Object(members) => self.members(members),
            _ => {}
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        let is_named = NAMING.iter().any(|key| {
            let name = members.get(*key).and_then(Value::as_str);
            name.is_some_and(|name| self.is_secret(last_part(name)))
        });
        for (key, value) in members {
            if self.is_secret(key) || (is_named && NAMED.contains(&key.as_str())) {
                self.secret(value);
            } else {
                self.value(value);
            }
        }
    }

    /// Masks a secret. What is below one is looked at by itself: `auths` has names of hosts.
    fn secret(&self, value: &mut Value) {
        match value {
            Value::String(_) | Value::Number(_) => *value = MASKED.into(),
            value => self.value(value),
        }
    }

    /// Masks a list, which may be one of arguments or of variables.
    fn elements(&self, elements: &mut [Value]) {
        let mut is_value = false;
        for element in elements {
            let Value::String(text) = element else {
                is_value = false;
                self.value(element);
                continue;
            };
            // An option without a value is followed by another one.
            if is_value && !text.starts_with("--") {
                MASKED.clone_into(text);
                is_value = false;
                continue;
            }
            let (name, value) = match text.find(['=', ':']) {
                Some(end) => (&text[..end], Some(text[end + 1..].trim_start_matches('='))),
                None => (text.as_str(), None),
            };
            let is_word = !name.contains(|c: char| c.is_whitespace() || c == '/');
            let is_secret = is_word && self.is_secret(name.trim_end_matches('+'));
            // A variable, and an option with `=`, may be empty; a line with a colon goes on.
            let takes_next = match value {
                None => name.starts_with('-'),
                Some(_) => text.ends_with(':'),
            };
            is_value = is_secret && takes_next;
            if is_secret && value.is_some_and(|value| !value.is_empty()) {
                *text = format!("{}{MASKED}", &text[..=name.len()]);
            } else {
                *text = self.apply(text);
            }
        }
    }
}

/// Returns the last part of a name of a field, such as `env[DB_PASSWORD]`, or of a JSON pointer.
fn last_part(name: &str) -> &str {
    let name = name.strip_suffix(']').unwrap_or(name);
    name.rsplit(['[', '/', '~']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: &Value, after: &Value) {
        let mask = Mask::new().unwrap();
        for text in [before.to_string(), format!("{before:#}")] {
            let masked = mask.apply(&text);
            assert_eq!(serde_json::from_str::<Value>(&masked).unwrap(), *after, "{masked}");
        }
        // A line of a log has JSON in JSON.
        let masked = mask.apply(&json!({"line": before.to_string()}).to_string());
        let line: Value = serde_json::from_str(&masked).unwrap();
        let line: Value = serde_json::from_str(line["line"].as_str().unwrap()).unwrap();
        assert_eq!(line, *after);
    }

    #[test]
    fn an_argument_is_masked_to_its_end() {
        let before = json!([
            "x",
            "--password=S my S",
            "--password=a]S",
            "DB_TOKEN={S}",
            "B=kept",
            "--password='S",
            "password=[S",
            "PASSWORD+=S",
            "--level=debug",
            "a password = S"
        ]);
        let after = json!([
            "x",
            "--password=***",
            "--password=***",
            "DB_TOKEN=***",
            "B=kept",
            "--password=***",
            "password=***",
            "PASSWORD+=***",
            "--level=debug",
            "a password = ***"
        ]);
        check(&before, &after);
    }

    #[test]
    fn an_option_takes_the_next_argument_whatever_it_begins_with() {
        let before = json!([
            "--password",
            "-S",
            "PASSWORD:",
            "S",
            "--token",
            "--level",
            "-v",
            "--requirepass",
            "S s",
            "token",
            "kept",
            "DB_PASSWORD=",
            "PATH=/bin"
        ]);
        let after = json!([
            "--password",
            "***",
            "PASSWORD:",
            "***",
            "--token",
            "--level",
            "-v",
            "--requirepass",
            "***",
            "token",
            "kept",
            "DB_PASSWORD=",
            "PATH=/bin"
        ]);
        check(&before, &after);
    }

    #[test]
    fn a_value_belongs_to_the_name_beside_it() {
        let of = |value: &str| {
            json!({"changes": [
                {"field": "annotations[example.com/db-password]",
                 "path": "/annotations/example.com~1db-password", "before": null, "after": value},
                {"field": "sysctl[net.core.somaxconn]", "before": "1", "after": "2"},
                {"name": "DB_PASSWORD", "value": value},
            ]})
        };
        check(&of("S] my S"), &of("***"));
    }
}

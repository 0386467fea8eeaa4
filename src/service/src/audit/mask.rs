//! Values that the audit log does not show: those of environment variables, which often are
//! secrets, and very long ones.

use nri_files::{AuditLine, FieldChange};
use serde_json::Value;

/// Maximum length of a value as JSON, enough for the seccomp profile of an engine. Longer values
/// are replaced by their length.
const MAX_VALUE: usize = 32 << 10;

/// Masks the values of a line.
pub(super) fn mask(line: &mut AuditLine, shows_environment: bool) {
    if !shows_environment {
        line.mask_environment();
    }
    for FieldChange { before, after, .. } in &mut line.changes {
        for value in [before, after].into_iter().flatten() {
            shorten(value);
        }
    }
}

/// Replaces a value that is too long by its length.
fn shorten(value: &mut Value) {
    let is_long = match value {
        Value::String(text) => text.len() > MAX_VALUE,
        Value::Array(_) | Value::Object(_) => value.to_string().len() > MAX_VALUE,
        _ => false,
    };
    if is_long {
        *value = format!("({} bytes of JSON)", value.to_string().len()).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(path: &str, value: Value, shows_environment: bool) -> Value {
        let change =
            FieldChange { path: path.into(), after: Some(value), ..FieldChange::default() };
        let mut line = AuditLine { changes: vec![change], ..AuditLine::default() };
        mask(&mut line, shows_environment);
        line.changes.remove(0).after.unwrap()
    }

    #[test]
    fn values_of_variables_are_masked_unless_the_configuration_shows_them() {
        assert_eq!(masked("/process/env/-", json!("secret"), false), "***");
        assert_eq!(masked("/process/env/-", json!("secret"), true), "secret");
        let hook = json!({"path": "/h", "env": ["TOKEN=secret", "odd"]});
        let hidden = json!({"path": "/h", "env": ["TOKEN=***", "=***"]});
        assert_eq!(masked("/hooks/poststart/-", hook.clone(), false), hidden);
        assert_eq!(masked("/hooks/poststart/-", hook.clone(), true), hook);
        assert_eq!(masked("/annotations/a", json!("kept"), false), "kept");
    }

    #[test]
    fn a_very_long_value_is_replaced_by_its_length() {
        let long = "x".repeat(MAX_VALUE + 1);
        assert_eq!(masked("/a", json!(long), false), "(32771 bytes of JSON)");
        assert_eq!(masked("/a", json!([long]), false), "(32773 bytes of JSON)");
        assert_eq!(masked("/a", json!([1]), false), json!([1]));
    }
}

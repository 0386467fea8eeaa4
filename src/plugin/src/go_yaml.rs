//! YAML as upstream's plugins read it: converted to JSON, and then to a type of Go.

use crate::ConfigurationError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// Largest text in bytes: the total size that Kubernetes allows the annotations of a pod.
const MAX_TEXT: usize = 256 << 10;

/// Largest number of values, with aliases expanded. Whoever creates a container writes the text,
/// and the plugin must not miss the runtime's time limit because of it.
const MAX_NODES: usize = 20_000;

/// Reads YAML or JSON as upstream's plugins in Go do (feature `yaml`), so that annotations mean the
/// same: keys have any case, the last of equal keys counts, unknown keys are ignored, `010` is
/// octal, `1e3` is an integer, and `"7"` is no number.
///
/// Fields of `T` need names in lower case: all keys are read so.
///
/// ```
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Limit {
///     hard: u64,
/// }
///
/// let limit: Limit = nri_plugin::from_go_yaml("{Hard: 010, color: red}")?;
/// assert_eq!(limit, Limit { hard: 8 });
/// # Ok::<(), nri_plugin::ConfigurationError>(())
/// ```
///
/// # Errors
/// If the text is invalid, has more than 256 KiB, or more than 20,000 values with its aliases
/// expanded: it is of whoever creates a container, and has to be read within a request.
pub fn from_go_yaml<T: DeserializeOwned>(text: &str) -> Result<T, ConfigurationError> {
    if text.len() > MAX_TEXT {
        return Err(ConfigurationError::too_large(text.len(), MAX_TEXT));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigurationError::of_yaml(&error))?;
    serde_path_to_error::deserialize(folded(value))
        .map_err(|error| ConfigurationError::of_json(&error))
}

/// Returns a value with keys in lower case, and with integers where numbers are integral.
fn folded(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key.to_lowercase(), value));
            let mut lower = Map::new();
            for (key, value) in members {
                lower.insert(key, folded(value)); // the last one counts
            }
            lower.into()
        }
        Value::Array(values) => values.into_iter().map(folded).collect(),
        Value::Number(number) => Value::Number(integer(&number).unwrap_or(number)),
        value => value,
    }
}

/// Returns an integral number as an integer.
fn integer(number: &Number) -> Option<Number> {
    let value = number.as_f64().filter(|_| !number.is_i64() && !number.is_u64())?;
    // Above, JSON of Go has an exponent, which is no integer there.
    if value.fract() != 0.0 || value.abs() >= 1e21 {
        return None;
    }
    format!("{value:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct Values {
        name: String,
        limit: Option<u64>,
    }

    fn check(text: &str, expected: Option<(&str, Option<u64>)>) {
        let found = from_go_yaml::<Values>(text);
        let expected = expected.map(|(name, limit)| Values { name: name.to_owned(), limit });
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{text}: {found:?}");
        if let Err(error) = found {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn keys_and_numbers_are_those_of_go() {
        check("{name: a, LIMIT: 7, color: red}", Some(("a", Some(7))));
        check("name: a\nname: b\n", Some(("b", None)));
        for (text, number) in [("010", 8), ("0x10", 16), ("1e3", 1000), ("1_000", 1000), ("+7", 7)]
        {
            check(&format!("limit: {text}"), Some(("", Some(number))));
        }
        check("limit: 18446744073709551615", Some(("", Some(u64::MAX))));
        check("limit: ~", Some(("", None)));
        for text in ["\"7\"", "-1", "1.5", "18446744073709551616", "1e30", "many", "[1]"] {
            check(&format!("limit: {text}"), None);
        }
        check("- 1", None);
        check("[", None);
    }

    #[test]
    fn a_wrong_value_is_named_with_its_key() {
        let error = |text: &str| from_go_yaml::<Vec<Values>>(text).unwrap_err().to_string();
        assert_eq!(
            error("- limit: 7\n- Limit: {a: b}\n"),
            "[1].limit must be a whole number from 0 to 18446744073709551615, not a mapping"
        );
        assert_eq!(error("- name: 7"), "[0].name must be a text, not a number");
        assert_eq!(error("a: b"), "must be a list, such as `- value`, not a mapping");
    }

    #[test]
    fn a_text_that_takes_too_long_is_an_error() {
        // Each list has ten of the list before it.
        let lists =
            (1..10).map(|n| format!("- &l{n} [{}]", vec![format!("*l{}", n - 1); 10].join(",")));
        let lists: Vec<String> = std::iter::once("- &l0 [x]".to_owned()).chain(lists).collect();
        let error = from_go_yaml::<Value>(&lists.join("\n")).unwrap_err().to_string();
        assert!(error.contains("too large or too complex"), "{error}");
        let entries =
            |count| from_go_yaml::<Vec<u64>>(&format!("[{}]", vec!["1"; count].join(",")));
        assert_eq!(entries(19_000).unwrap().len(), 19_000);
        assert!(entries(21_000).is_err());
        let long = from_go_yaml::<String>(&"x".repeat(300 << 10)).unwrap_err().to_string();
        assert_eq!(long, "a text of 307200 bytes: at most 262144 are allowed");
    }
}

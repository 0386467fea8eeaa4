//! The configuration of a plugin, which the runtime sends as text.

#[cfg(feature = "toml")]
use nri_values::{TomlMistake, line_and_column};
#[cfg(feature = "yaml")]
use nri_values::{Words, reworded};
use std::sync::{Arc, PoisonError, RwLock};

/// Error of a configuration: not TOML or YAML, or not of the plugin's type. Its text is one line
/// with the place in the configuration, since runtimes log it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigurationError(String);

#[cfg(feature = "toml")]
impl ConfigurationError {
    fn of_toml(error: &toml::de::Error, text: &str) -> Self {
        let mistake = TomlMistake::new(text, error);
        let (line, column) = line_and_column(text, mistake.offset);
        Self(format!("line {line}, column {column}: {}", mistake.message))
    }
}

#[cfg(feature = "yaml")]
impl ConfigurationError {
    pub(crate) fn of_json(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let message = reworded(&error.inner().to_string().replace('\n', ", "), Words::Yaml);
        match error.path().to_string().as_str() {
            "." => Self(message),
            path if message.starts_with("must be ") => Self(format!("{path} {message}")),
            path => Self(format!("{path}: {message}")),
        }
    }

    pub(crate) fn too_large(size: usize, limit: usize) -> Self {
        Self(format!("a text of {size} bytes: at most {limit} are allowed"))
    }

    pub(crate) fn of_yaml(error: &serde_saphyr::Error) -> Self {
        let error = error.without_snippet();
        let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let place = error
            .location()
            .map_or_else(String::new, |at| format!("line {}, column {}", at.line(), at.column()));
        // The message may have the place at its end.
        let message = message.trim_end();
        let message = message.strip_suffix(&format!(" at {place}")).unwrap_or(message);
        let separator = if place.is_empty() { "" } else { ": " };
        let message = reworded(&message.replace('\n', ", "), Words::Yaml);
        Self(format!("{place}{separator}{message}"))
    }
}

/// A configuration of any type, which a plugin holds and reads while handlers run. It is replaced
/// as a whole.
///
#[cfg_attr(feature = "yaml", doc = "```")]
#[cfg_attr(not(feature = "yaml"), doc = "```ignore")]
/// use nri_plugin::{Configured, prelude::*};
///
/// #[derive(Default, serde::Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// struct Greeting {
///     text: String,
/// }
///
/// #[derive(Default)]
/// struct Greeter {
///     greeting: Configured<Greeting>,
/// }
///
/// impl Plugin for Greeter {
///     async fn configure(&self, _: &Session, text: &str) -> Reply<()> {
///         Ok(self.greeting.read_yaml(text)?)
///     }
///
///     async fn create_container(
///         &self,
///         _: &Session,
///         _: PodSandbox,
///         _: Container,
///     ) -> Reply<Creation> {
///         let mut adjustment = Adjustment::new();
///         adjustment.add_env("HELLO", &self.greeting.get().text);
///         Ok(adjustment.into())
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct Configured<T>(RwLock<Arc<T>>);

impl<T> Configured<T> {
    /// Creates a configuration with a value that applies until the runtime sends one.
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// Returns the value that applies now.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }

    /// Reads TOML (feature `toml`). An empty text, which a runtime without a configuration of the
    /// plugin sends, keeps the value.
    ///
    /// # Errors
    /// If the text is invalid; the value stays as it was.
    #[cfg(feature = "toml")]
    pub fn read_toml(&self, text: &str) -> Result<(), ConfigurationError>
    where
        T: serde::de::DeserializeOwned,
    {
        if !text.trim().is_empty() {
            self.set(from_toml(text)?);
        }
        Ok(())
    }

    /// Reads YAML or JSON (feature `yaml`), the formats of upstream's plugins. An empty text, which
    /// a runtime without a configuration of the plugin sends, keeps the value.
    ///
    /// # Errors
    /// If the text is invalid; the value stays as it was.
    #[cfg(feature = "yaml")]
    pub fn read_yaml(&self, text: &str) -> Result<(), ConfigurationError>
    where
        T: serde::de::DeserializeOwned,
    {
        if !text.trim().is_empty() {
            self.set(from_yaml(text)?);
        }
        Ok(())
    }
}

/// Reads TOML (feature `toml`), as [`Configured::read_toml`] does.
///
/// # Errors
/// If the text is invalid.
#[cfg(feature = "toml")]
pub fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ConfigurationError> {
    toml::from_str(text).map_err(|e| ConfigurationError::of_toml(&e, text))
}

/// Reads YAML or JSON (feature `yaml`), as [`Configured::read_yaml`] does. For annotations of
/// upstream's plugins, see [`from_go_yaml`](crate::from_go_yaml).
///
/// # Errors
/// If the text is invalid.
#[cfg(feature = "yaml")]
pub fn from_yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ConfigurationError> {
    serde_saphyr::from_str(text).map_err(|e| ConfigurationError::of_yaml(&e))
}

#[cfg(all(test, feature = "toml", feature = "yaml"))]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Values {
        words: Vec<String>,
        limit: u32,
    }

    #[test]
    fn toml_yaml_and_json_replace_the_value_and_an_empty_text_keeps_it() {
        let configured = Configured::new(Values { words: vec!["a".into()], limit: 7 });
        let values = |word: &str, limit| Values { words: vec![word.into()], limit };
        configured.read_yaml(" \n").unwrap();
        configured.read_toml("").unwrap();
        assert_eq!(*configured.get(), values("a", 7));
        configured.read_yaml("# a comment\nwords: [b]\nlimit: 8\n").unwrap();
        assert_eq!(*configured.get(), values("b", 8));
        configured.read_yaml("{\"words\": [\"c\"]}").unwrap();
        assert_eq!(*configured.get(), values("c", 0));
        configured.read_toml("words = ['d']").unwrap();
        let old = configured.get();
        for text in ["colour: red", "limit: many", "- 1", "limit = 1", "words: [a"] {
            let error = configured.read_yaml(text).unwrap_err().to_string();
            assert!(error.starts_with("line ") && !error.contains('\n'), "{error}");
        }
        assert!(Arc::ptr_eq(&old, &configured.get()));
        let error = configured.read_yaml("limit: 1\ncolour: red").unwrap_err().to_string();
        assert!(error.starts_with("line 2, column 1: ") && error.contains("colour"), "{error}");
        assert_eq!(error.matches("line 2").count(), 1, "{error}");
    }

    #[test]
    fn an_error_of_toml_is_one_line_with_line_and_column() {
        let error_of =
            |text: &str| Configured::<Values>::default().read_toml(text).unwrap_err().to_string();
        let error = error_of("limit = 1\n  nonsense = 1\n");
        assert!(error.starts_with("line 2, column 3: unknown key `nonsense`"), "{error}");
        for text in ["limit = \n", "words = 1\n", "\u{e4} = [", "="] {
            let error = error_of(text);
            assert!(error.starts_with("line ") && !error.contains('\n'), "{error}");
        }
    }
}

//! Mistakes that do not prevent a start: unknown log levels, relative paths, and values such as a
//! timeout of 0. If a start refused the file, no container could be created on the node. `nrid
//! --check` and a reload do refuse it.

use crate::{ConfigError, log_level, model::Config, paths, unusable};
use std::ops::Range;

/// Maximum number of mistakes, since the text is parsed again after each mistake. A real file has a
/// few.
const MAX_MISTAKES: usize = 16;

impl Config {
    /// Parses the text of a configuration file like [`Config::parse`], but replaces an unknown
    /// log level by `info`, and takes relative paths as relative to `/`: all callers must find the
    /// same files, whatever their working directory is. Also returns an error for each mistake.
    ///
    /// # Errors
    /// Any other error, or too many mistakes.
    pub fn parse_with_mistakes(text: &str) -> Result<(Self, Vec<ConfigError>), ConfigError> {
        let mut corrected = text.to_owned();
        let mut mistakes: Vec<ConfigError> = Vec::new();
        let mut config = loop {
            let (mut error, span) = match Self::parse_with_span(&corrected) {
                Ok(config) => break config,
                Err(failed) => failed,
            };
            let replaced = span.and_then(|span| correct(&error.message, &mut corrected, span));
            let Some(effect) = replaced.filter(|_| mistakes.len() < MAX_MISTAKES) else {
                return Err(error);
            };
            error.message = format!("{}; {effect}", error.message);
            mistakes.push(error);
        };
        mistakes.extend(unusable::replace(&mut config).into_iter().map(|replaced| {
            let effect = replaced.effect;
            let mut error = ConfigError::unusable(&corrected, replaced);
            error.message = format!("{}; {effect}", error.message);
            error
        }));
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        Ok((config, mistakes))
    }
}

/// Corrects the value at `span`, and returns a text about the value that a start uses instead;
/// `None` if the value cannot be corrected.
fn correct(message: &str, text: &mut String, span: Range<usize>) -> Option<&'static str> {
    if log_level::is_unknown_level(message) {
        text.replace_range(span, "\"info\"");
        return Some("a start uses \"info\"");
    }
    if !paths::is_relative(message) {
        return None;
    }
    let value = text.get(span.clone())?;
    let quotes = if value.starts_with("'''") || value.starts_with("\"\"\"") { 3 } else { 1 };
    let start = span.start + quotes;
    text.insert(start, '/');
    Some("a start takes it as relative to /")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(text: &str) -> (Config, Vec<String>) {
        let (config, mistakes) = Config::parse_with_mistakes(text).unwrap();
        (config, mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_unknown_level_is_replaced_by_info() {
        for level in ["loud", "", "info,verbose", "nri_wire=all"] {
            let (config, mistakes) = parse(&format!("mode = 'shadow'\n[log]\nlevel = '{level}'\n"));
            assert_eq!((config.log.level.as_str(), mistakes.len()), ("info", 1), "{level}");
            assert!(mistakes[0].starts_with("line 3, column 9: "), "{mistakes:?}");
            assert!(mistakes[0].ends_with("; a start uses \"info\""), "{mistakes:?}");
        }
    }

    #[test]
    fn relative_paths_are_relative_to_the_root_directory() {
        let text = "state_dir = 'run/x'\nplugin_path = \"./p\"\n[cdi]\n\
                    spec_dirs = ['/etc/cdi', 'cdi', \"\"\"d\"\"\"]\n[runtime]\npath = 'bin/runc'\n\
                    names.x.path = '''a/x'''\n";
        assert!(Config::parse(text).is_err());
        let (config, mistakes) = parse(text);
        assert_eq!(config.state_dir.as_deref(), Some(Path::new("/run/x")));
        assert_eq!(config.plugin_path.as_deref(), Some(Path::new("/p")));
        assert_eq!(config.cdi.spec_dirs, ["/etc/cdi", "/cdi", "/d"].map(Path::new));
        assert_eq!(config.runtime.path.as_deref(), Some(Path::new("/bin/runc")));
        assert_eq!(config.runtime.names["x"].path, Path::new("/a/x"));
        assert_eq!(mistakes.len(), 6);
        let expected = "line 1, column 13: \"run/x\" is not an absolute path; \
                        a start takes it as relative to /";
        assert_eq!(mistakes[0], expected);
    }

    #[test]
    fn other_errors_and_too_many_mistakes_are_refused() {
        for text in ["[log]\nlevel = 'loud'\ncolour = 1\n", "state_dir = ''\n", "log.level = 3\n"] {
            let error = Config::parse_with_mistakes(text).unwrap_err();
            assert!(!error.message.contains("a start"), "{error}");
        }
        let many = "'p',".repeat(MAX_MISTAKES + 1);
        Config::parse_with_mistakes(&format!("cdi.spec_dirs = [{many}]")).unwrap_err();
    }
}

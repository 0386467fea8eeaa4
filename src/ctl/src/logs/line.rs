//! A line of the log: time, level, and the message, which begins with the plugin's name if a
//! launched plugin has written it.

use serde::Serialize;
use std::time::SystemTime;

/// Levels of lines.
const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

/// A line of the log. Its JSON is described in `docs/reference/nrictl.md`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ParsedLine<'a> {
    /// RFC 3339; `None` for a line that `nrid` has not written as a log line.
    time: Option<&'a str>,
    level: Option<&'a str>,
    /// The launched plugin that wrote the message: `NN-name`.
    pub(super) plugin: Option<&'a str>,
    message: &'a str,
}

impl<'a> ParsedLine<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let parsed = text.split_once(' ').and_then(|(time, rest)| {
            humantime::parse_rfc3339(time).ok()?;
            let (level, message) = rest.trim_start().split_once(' ')?;
            LEVELS.contains(&level).then_some((time, level, message))
        });
        let Some((time, level, message)) = parsed else {
            return Self { time: None, level: None, plugin: None, message: text };
        };
        let written = message.split_once(": ").filter(|(name, _)| is_plugin_name(name));
        let (plugin, message) = match written {
            Some((plugin, line)) => (Some(plugin), line),
            None => (None, message),
        };
        Self { time: Some(time), level: Some(level), plugin, message }
    }

    /// Returns the line as a plugin has written it, with its time and level if it has them.
    pub(super) fn without_plugin(&self) -> String {
        match (self.time, self.level) {
            (Some(time), Some(level)) => format!("{time} {level:>5} {}", self.message),
            _ => self.message.to_owned(),
        }
    }

    pub(super) fn time(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(self.time?).ok()
    }

    /// Whether a plugin has written the message, or `nrid` names it in the message's fields.
    /// `wanted` is its name with or without the index.
    pub(super) fn is_of_plugin(&self, wanted: &str) -> bool {
        let is_wanted = |plugin: &str| {
            plugin == wanted || plugin.split_once('-').is_some_and(|(_, name)| name == wanted)
        };
        self.plugin.or_else(|| self.named_plugin()).is_some_and(is_wanted)
    }

    fn named_plugin(&self) -> Option<&'a str> {
        let (_, value) = self.message.split_once(" plugin=")?;
        value.strip_prefix('"').unwrap_or(value).split(['"', ' ']).next()
    }
}

/// Whether a text is `NN-name`.
fn is_plugin_name(text: &str) -> bool {
    let is_index = |index: &str| index.len() == 2 && index.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split_once('-');
    parts.is_some_and(|(index, name)| {
        is_index(index) && !name.is_empty() && !name.contains([' ', '='])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_level_and_the_plugin_that_wrote_it() {
        let time = "2026-01-02T03:04:05.000006Z";
        let own = format!("{time}  INFO nrid listens plugin=10-a: x");
        let line = ParsedLine::parse(&own);
        assert_eq!((line.time, line.level), (Some(time), Some("INFO")));
        assert_eq!((line.plugin, line.message), (None, "nrid listens plugin=10-a: x"));
        assert!(!line.is_of_plugin("10-a") && line.time().is_some());
        let written = format!("{time}  INFO 10-a-b: hello: world");
        let line = ParsedLine::parse(&written);
        assert_eq!((line.plugin, line.message), (Some("10-a-b"), "hello: world"));
        assert!(line.is_of_plugin("10-a-b") && line.is_of_plugin("a-b"));
        assert!(!line.is_of_plugin("a") && !line.is_of_plugin("b"));
        for own in ["no reply plugin=10-a-b error=x", "no reply plugin=\"10-a-b\""] {
            let own = format!("{time}  WARN {own}");
            let line = ParsedLine::parse(&own);
            assert!(line.plugin.is_none() && line.is_of_plugin("10-a-b"));
            assert!(line.is_of_plugin("a-b") && !line.is_of_plugin("10-a"));
        }
        let panic = "thread 'main' panicked";
        let line = ParsedLine::parse(panic);
        assert_eq!((line.time, line.plugin, line.message), (None, None, panic));
        assert_eq!(
            serde_json::to_string(&ParsedLine::parse(&written)).unwrap(),
            format!(
                "{{\"time\":\"{time}\",\"level\":\"INFO\",\"plugin\":\"10-a-b\",\
                 \"message\":\"hello: world\"}}"
            )
        );
    }
}

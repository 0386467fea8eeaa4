//! Selection of lines by plugin, container and time.

use nri_control::Match;
use nri_files::{AuditEvent, AuditLine};
use nri_values::parse_duration;
use std::time::{Duration, SystemTime};

/// Number of digits of ids that people write.
const SHORT_ID: usize = 12;

/// Lines that are of interest.
#[derive(Debug, Clone, Default)]
pub(super) struct LineFilter {
    /// Plugin, as `NN-name` or as `name`.
    pub(super) plugin: Option<String>,
    /// Containers with this id, this name, or ids with this prefix: a filter does not choose.
    pub(super) container: Option<String>,
    /// Time from which lines are of interest.
    pub(super) since: Option<SystemTime>,
    /// Time until which lines are of interest.
    pub(super) until: Option<SystemTime>,
    /// Events that are of interest; none stands for all.
    pub(super) events: Vec<AuditEvent>,
}

impl LineFilter {
    /// Whether a line is of interest.
    pub(super) fn matches(&self, line: &AuditLine) -> bool {
        let time = humantime::parse_rfc3339(&line.time).ok();
        let is_since = |since: &SystemTime| time.is_some_and(|time| time >= *since);
        let is_until = |until: &SystemTime| time.is_some_and(|time| time <= *until);
        self.plugin.as_ref().is_none_or(|plugin| is_plugin(line, plugin))
            && self.container.as_ref().is_none_or(|wanted| match_of(line, wanted).is_some())
            && self.since.as_ref().is_none_or(is_since)
            && self.until.as_ref().is_none_or(is_until)
            && (self.events.is_empty() || self.events.contains(&line.event))
    }
}

/// Whether a plugin is one of those that a line names.
fn is_plugin(line: &AuditLine, wanted: &str) -> bool {
    let name = |plugin: &str| plugin.split_once('-').is_some_and(|(_, name)| name == wanted);
    let missed = line.missed.iter().map(|missed| missed.plugin.as_str());
    let named = line.plugin.split(',').chain(line.plugins.iter().map(String::as_str));
    named.chain(missed).any(|plugin| !plugin.is_empty() && (plugin == wanted || name(plugin)))
}

/// Returns how `wanted` names the container of a line; `None` if it does not.
pub(super) fn match_of(line: &AuditLine, wanted: &str) -> Option<Match> {
    Match::of(wanted, &[&line.container], &line.name).filter(|_| !line.container.is_empty())
}

/// Returns the event with this name.
pub(super) fn parse_event(name: &str) -> Result<AuditEvent, String> {
    let event = AuditEvent::ALL.into_iter().find(|event| event.name() == name);
    event.ok_or_else(|| {
        format!("the events are {}", AuditEvent::ALL.map(AuditEvent::name).join(", "))
    })
}

/// Returns the time that `--since` or `--until` names: a time of RFC 3339, or a duration before
/// now.
pub(crate) fn parse_time(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(time);
    }
    let expected = "expected a time such as 2026-01-02T15:04:05Z, or a duration such as 10m";
    // humantime has days and weeks, too.
    let before: Duration = parse_duration(text)
        .or_else(|_| humantime::parse_duration(text))
        .map_err(|_| expected.to_owned())?;
    Ok(SystemTime::now().checked_sub(before).unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Returns a time of the log in milliseconds, for people.
pub(super) fn shown_time(time: &str) -> String {
    time.get(..23).map_or_else(|| time.to_owned(), |time| format!("{time}Z"))
}

/// Returns the container of a line for people: its name, or the beginning of its id.
pub(super) fn shown_container(line: &AuditLine) -> String {
    if !line.name.is_empty() {
        return line.name.clone();
    }
    let is_digest = line.container.len() == 64;
    if is_digest { line.container.chars().take(SHORT_ID).collect() } else { line.container.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> AuditLine {
        AuditLine {
            time: "2026-01-02T03:04:05.000006Z".into(),
            plugin: "10-a,20-b".into(),
            plugins: vec!["30-d".into()],
            container: "c".repeat(64),
            ..AuditLine::default()
        }
    }

    #[test]
    fn lines_are_selected_by_plugin_container_and_time() {
        let matches = |plugin: &str, container: &str, since: &str| {
            let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
            let since = text(since).map(|since| parse_time(&since).unwrap());
            let (plugin, container) = (text(plugin), text(container));
            let filter = LineFilter { plugin, container, since, ..LineFilter::default() };
            filter.matches(&line())
        };
        assert!(matches("", "", "") && matches("10-a", "ccc", "") && matches("b", "", ""));
        assert!(matches("d", "", "") && matches("30-d", "", ""));
        assert!(!matches("10", "", "") && !matches("", "d", "") && !matches("c", "", ""));
        assert!(matches("", "", "2026-01-02T03:04:05Z") && matches("", "", "2026-01-02 03:04:05"));
        assert!(!matches("", "", "2026-01-02T03:04:06Z") && !matches("", "", "1h"));
        // Empty, as a variable of a script that is not set: no plugin, and no container.
        let created = AuditLine { plugin: String::new(), ..line() };
        assert!(!is_plugin(&created, "") && match_of(&created, "").is_none());
        let old = parse_time("10m").unwrap();
        assert!(old < SystemTime::now() && parse_time("soon").is_err());
        for text in ["1h30m", "1.5h", "90 m", "5400", "1day"] {
            assert!(parse_time(text).unwrap() < old, "{text}");
        }
    }

    #[test]
    fn a_container_is_shown_by_its_name_or_the_beginning_of_its_id() {
        assert_eq!(shown_container(&line()), "cccccccccccc");
        assert_eq!(shown_container(&AuditLine { name: "web".into(), ..line() }), "web");
        let named = AuditLine { container: "my-container".into(), ..AuditLine::default() };
        assert_eq!(shown_container(&named), "my-container");
    }
}

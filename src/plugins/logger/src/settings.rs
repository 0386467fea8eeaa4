//! Settings of the plugin: from the command line, each replaced by that of the configuration.

use nri_plugin::{ConfigurationError, EventMask, from_go_yaml};
use std::path::PathBuf;

/// Settings; those that are absent have no effect. Empty texts are absent, too, as upstream's.
/// Keys of the configuration are read in lower case.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, clap::Args)]
#[serde(default)]
pub(crate) struct LoggerSettings {
    /// Log to this file instead of stderr
    #[arg(long, value_name = "PATH")]
    #[serde(rename = "logfile")]
    pub(crate) log_file: Option<PathBuf>,
    /// Lists of events to subscribe to; all events if absent.
    #[arg(skip)]
    pub(crate) events: Option<Vec<String>>,
    /// Add this annotation to containers
    #[arg(long, value_name = "KEY")]
    #[serde(rename = "addannotation")]
    pub(crate) add_annotation: Option<String>,
    /// Set this annotation of containers, even if another plugin has set it
    #[arg(long, value_name = "KEY")]
    #[serde(rename = "setannotation")]
    pub(crate) set_annotation: Option<String>,
    /// Add this environment variable to containers
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "addenv")]
    pub(crate) add_env: Option<String>,
    /// Set this environment variable of containers, even if another plugin has set it
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "setenv")]
    pub(crate) set_env: Option<String>,
}

impl LoggerSettings {
    /// Returns these settings, replaced by those of a configuration in YAML.
    pub(crate) fn configured(&self, text: &str) -> Result<Self, ConfigurationError> {
        if text.trim().is_empty() {
            return Ok(self.clone());
        }
        let sent: Self = from_go_yaml(text)?;
        let old = self.clone();
        Ok(Self {
            log_file: sent.log_file.or(old.log_file),
            events: sent.events.or(old.events),
            add_annotation: sent.add_annotation.or(old.add_annotation),
            set_annotation: sent.set_annotation.or(old.set_annotation),
            add_env: sent.add_env.or(old.add_env),
            set_env: sent.set_env.or(old.set_env),
        })
    }

    /// Returns the events to subscribe to.
    pub(crate) fn event_mask(&self) -> Result<EventMask, nri_plugin::UnknownEventName> {
        let lists = self.events.iter().flatten().filter(|list| !list.is_empty());
        let mask = lists
            .map(|list| EventMask::parse(list))
            .try_fold(EventMask::NONE, |mask, parsed| Ok(mask.union(parsed?)))?;
        Ok(if mask.is_empty() { EventMask::ALL } else { mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::proto::Event;

    #[test]
    fn a_configuration_replaces_what_it_has() {
        let settings = LoggerSettings {
            add_env: Some("A".into()),
            set_env: Some("B".into()),
            ..Default::default()
        };
        assert_eq!(settings.configured(" ").unwrap(), settings);
        let text = "addEnv: C\nlogFile: /f\nevents: [pod, StopContainer]\n";
        let configured = settings.configured(text).unwrap();
        assert_eq!(configured.add_env.as_deref(), Some("C"));
        assert_eq!(configured.set_env.as_deref(), Some("B"));
        assert_eq!(configured.log_file, Some("/f".into()));
        let events = configured.event_mask().unwrap();
        assert_eq!(events, EventMask::parse("pod").unwrap().with(Event::STOP_CONTAINER));
        assert!(settings.configured("events: 1").is_err());
    }

    #[test]
    fn all_events_without_a_list() {
        let mask = |lists: &[&str]| {
            let events = Some(lists.iter().map(ToString::to_string).collect());
            LoggerSettings { events, ..Default::default() }.event_mask()
        };
        assert_eq!(LoggerSettings::default().event_mask(), Ok(EventMask::ALL));
        assert_eq!(mask(&[""]), Ok(EventMask::ALL));
        assert!(mask(&["colour"]).is_err());
    }
}

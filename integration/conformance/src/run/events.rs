//! Checks of what plugins have received.

use super::{Running, Stop, check::value};
use crate::{
    case::{Events, Received},
    observe::{USUAL, within},
    plugin::Entry,
};
use serde_json::Value;

/// Requests that are left out of lists of events unless a case names them: not every plugin of the
/// same subscription receives them.
const OPTIONAL: [&str; 3] = ["Configure", "Synchronize", "ValidateContainerAdjustment"];

impl Running<'_> {
    /// Compares the requests that a plugin has received with a list.
    pub(super) fn events(&self, events: &Events) -> Result<(), Stop> {
        let session = self.session(&events.plugin)?;
        Ok(within(USUAL, || {
            let entries = session.plugin.journal.entries();
            let is_named = |event: &str| events.are.iter().flatten().any(|e| e == event);
            let got: Vec<&str> = entries
                .iter()
                .filter(|entry| !OPTIONAL.contains(&&*entry.event) || is_named(&entry.event))
                .filter(|entry| self.is_about(entry, events))
                .map(|entry| entry.event.as_str())
                .collect();
            if events.are.iter().any(|expected| *expected == got) {
                return Ok(());
            }
            let expected: Vec<String> = events.are.iter().map(|list| list.join(" ")).collect();
            let got = got.join(" ");
            let plugin = &events.plugin;
            Err(format!("events of {plugin}: [{}] expected, [{got}]", expected.join("] or [")))
        })?)
    }

    fn is_about(&self, entry: &Entry, events: &Events) -> bool {
        let containers = &self.runner.sessions.containers;
        let is_pod = entry.container().is_empty();
        if is_pod && events.without_pods {
            return false;
        }
        match &events.container {
            None => is_pod || containers.name(entry.container()).is_some(),
            Some(name) if is_pod => containers.pod(name).is_some_and(|pod| pod == entry.pod()),
            Some(name) => containers.id(name) == entry.container(),
        }
    }

    /// Compares fields of the last request of a kind with expected values.
    pub(super) fn received(&self, received: &Received) -> Result<(), Stop> {
        let session = self.session(&received.plugin)?;
        let containers = &self.runner.sessions.containers;
        Ok(within(USUAL, || {
            let id = received.container.as_deref().map(|name| containers.id(name));
            let mut entries = session.plugin.journal.entries();
            entries.retain(|entry| {
                entry.event == received.event
                    && id.as_deref().is_none_or(|id| id == entry.container())
            });
            let what = format!("{} of plugin {}", received.event, received.plugin);
            let least = received.at_least.unwrap_or(1);
            if entries.len() < least {
                return Err(format!("{what}: at least {least} expected, {}", entries.len()));
            }
            for (pointer, expected) in &received.fields {
                let last = entries.last().and_then(|entry| entry.message.pointer(pointer));
                value(&format!("{what}: {pointer}"), expected, last)?;
            }
            let expected = received.containers.iter().map(|name| (name, 1));
            for (name, expected) in expected.chain(received.without.iter().map(|name| (name, 0))) {
                let (id, all) = (containers.id(name), entries.iter().flat_map(listed));
                let count = all.filter(|listed| *listed == id).count();
                if count != expected {
                    return Err(format!("{what}: container {name} {count} times, not {expected}"));
                }
            }
            Ok(())
        })?)
    }
}

/// Ids of the containers of a `Synchronize`.
fn listed(entry: &Entry) -> Vec<&str> {
    let all = entry.message.get("containers").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|container| container["id"].as_str()).collect()
}

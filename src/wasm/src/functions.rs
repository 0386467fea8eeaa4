//! The functions that a module exports, and the events they handle.
//!
//! Names and signatures are those that `go-plugin` generates for containerd/nri: `plugin_` and the
//! method, with pointer and size of the request as parameters, and pointer and size of the reply in
//! one `i64`.

use nri_api::EventMask;
use nri_api::proto::Event;
use std::collections::BTreeSet;

/// Name of an exported function.
pub(crate) type Function = &'static str;

/// Returns the version of the interface.
pub(crate) const API_VERSION: Function = "plugin_api_version";
/// Allocates memory of the guest.
pub(crate) const MALLOC: Function = "malloc";
/// Frees memory of the guest.
pub(crate) const FREE: Function = "free";
/// Initializes a module that is a library (WASI calls it a reactor).
pub(crate) const INITIALIZE: Function = "_initialize";
/// The events that have no function of their own in modules for NRI before v0.12.
pub(crate) const STATE_CHANGE: Function = "plugin_state_change";
/// Receives configuration and runtime.
pub(crate) const CONFIGURE: Function = "plugin_configure";
/// Receives the existing pods and containers.
pub(crate) const SYNCHRONIZE: Function = "plugin_synchronize";
/// Receives the end of the session.
pub(crate) const SHUTDOWN: Function = "plugin_shutdown";

/// Functions of the plugin that handle no event.
pub(crate) const OTHERS: [Function; 4] = [CONFIGURE, SYNCHRONIZE, SHUTDOWN, STATE_CHANGE];

/// The function of each event, and whether `StateChange` may deliver the event instead.
pub(crate) const EVENTS: [(Event, Function, bool); 14] = [
    (Event::RUN_POD_SANDBOX, "plugin_run_pod_sandbox", true),
    (Event::STOP_POD_SANDBOX, "plugin_stop_pod_sandbox", true),
    (Event::REMOVE_POD_SANDBOX, "plugin_remove_pod_sandbox", true),
    (Event::CREATE_CONTAINER, "plugin_create_container", false),
    (Event::POST_CREATE_CONTAINER, "plugin_post_create_container", true),
    (Event::START_CONTAINER, "plugin_start_container", true),
    (Event::POST_START_CONTAINER, "plugin_post_start_container", true),
    (Event::UPDATE_CONTAINER, "plugin_update_container", false),
    (Event::POST_UPDATE_CONTAINER, "plugin_post_update_container", true),
    (Event::STOP_CONTAINER, "plugin_stop_container", false),
    (Event::REMOVE_CONTAINER, "plugin_remove_container", true),
    (Event::UPDATE_POD_SANDBOX, "plugin_update_pod_sandbox", false),
    (Event::POST_UPDATE_POD_SANDBOX, "plugin_post_update_pod_sandbox", true),
    (Event::VALIDATE_CONTAINER_ADJUSTMENT, "plugin_validate_container_adjustment", false),
];

/// Returns the events that a module handles, by the functions that it exports.
pub(crate) fn handled_events(exports: &BTreeSet<Function>) -> EventMask {
    let has_state_change = exports.contains(STATE_CHANGE);
    let handled = EVENTS.into_iter().filter(|(_, function, may_be_state_change)| {
        exports.contains(function) || (*may_be_state_change && has_state_change)
    });
    EventMask::from_iter(handled.map(|(event, ..)| event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_function() {
        let all = EVENTS.map(|(_, function, _)| function).into();
        assert_eq!(handled_events(&all), EventMask::ALL);
        assert_eq!(handled_events(&[CONFIGURE, SYNCHRONIZE, SHUTDOWN].into()), EventMask::NONE);
    }

    #[test]
    fn a_module_for_an_older_version_gets_other_events_as_state_changes() {
        let events = handled_events(&[STATE_CHANGE, "plugin_create_container"].into());
        for (event, _, is_state_change) in EVENTS {
            let is_expected = is_state_change || event == Event::CREATE_CONTAINER;
            assert_eq!(events.contains(event), is_expected, "{event:?}");
        }
    }
}

//! What the indices have received of an event, so that each one compares with the one before it.

use nri_plugin::proto::Event;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Maximum number of events that a later index has not received yet. More would be those of a
/// runtime that does not call the later indices; then all are forgotten.
const MAX_EVENTS: usize = 4096;

/// Pod and container of an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Received {
    pub(crate) pod: Value,
    pub(crate) container: Option<Value>,
}

/// What the indices have received.
pub(crate) struct Chain {
    length: usize,
    /// By the event, the id of its container or pod, and the position that waits for it.
    events: Mutex<HashMap<(Event, String, usize), Received>>,
}

impl Chain {
    /// Creates a chain of this many indices.
    pub(crate) fn new(length: usize) -> Self {
        Self { length, events: Mutex::default() }
    }

    /// Records what a position has received, and returns what the position before it has received;
    /// `None` for the first position, and if the one before it has not received the event because
    /// it was not connected.
    pub(crate) fn exchange(
        &self,
        position: usize,
        event: Event,
        id: &str,
        received: &Received,
    ) -> Option<Received> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let before = events.remove(&(event, id.to_owned(), position));
        if matches!(event, Event::REMOVE_CONTAINER | Event::REMOVE_POD_SANDBOX) {
            events.retain(|(_, other, _), _| other != id);
        }
        if events.len() >= MAX_EVENTS {
            tracing::warn!("{MAX_EVENTS} events did not reach a later index, forgotten");
            events.clear();
        }
        // After a failed position, later ones compare with the last one that has succeeded.
        if position + 1 < self.length && (position == 0 || before.is_some()) {
            events.insert((event, id.to_owned(), position + 1), received.clone());
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str) -> Received {
        Received { pod: Value::Null, container: Some(text.into()) }
    }

    #[test]
    fn each_position_compares_with_the_one_before_it() {
        let chain = Chain::new(3);
        let pass = |position, event, id: &str, text: &str| {
            chain.exchange(position, event, id, &received(text))
        };
        assert_eq!(pass(0, Event::CREATE_CONTAINER, "a", "a0"), None);
        assert_eq!(pass(0, Event::CREATE_CONTAINER, "b", "b0"), None);
        assert_eq!(pass(1, Event::CREATE_CONTAINER, "a", "a1"), Some(received("a0")));
        assert_eq!(pass(2, Event::CREATE_CONTAINER, "a", "a2"), Some(received("a1")));
        assert_eq!(pass(2, Event::CREATE_CONTAINER, "a", "a2"), None);
        assert_eq!(pass(1, Event::START_CONTAINER, "b", "b1"), None);
        assert_eq!(pass(1, Event::CREATE_CONTAINER, "b", "b1"), Some(received("b0")));
    }

    #[test]
    fn nothing_is_left_of_a_removed_container() {
        let chain = Chain::new(2);
        chain.exchange(0, Event::CREATE_CONTAINER, "a", &received("0"));
        chain.exchange(0, Event::REMOVE_CONTAINER, "a", &received("1"));
        chain.exchange(1, Event::REMOVE_CONTAINER, "a", &received("1"));
        assert!(chain.events.lock().unwrap().is_empty());
        for number in 0..=MAX_EVENTS {
            chain.exchange(0, Event::CREATE_CONTAINER, &number.to_string(), &received("0"));
        }
        assert_eq!(chain.events.lock().unwrap().len(), 1);
    }
}

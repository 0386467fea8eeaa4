//! [`EventMask`]: the events that a plugin subscribes to, encoded as in
//! `ConfigureResponse.events` (bit `1 << (event - 1)`).

use crate::proto::Event;
use protobuf::Enum;

/// A set of [`Event`]s.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct EventMask(u32);

/// Error: bits of a subscription that belong to no known event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event bits {0:#x} in the subscription")]
pub struct UnknownEvents(pub u32);

/// Error: a word of a list of events that names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event {0:?}")]
pub struct UnknownEventName(pub String);

impl EventMask {
    /// No event.
    pub const NONE: Self = Self(0);
    /// Every event of this protocol version.
    pub const ALL: Self = Self((1 << (Event::LAST as u32 - 1)) - 1);

    /// Parses the mask of a `ConfigureResponse`; 0 subscribes to all events.
    ///
    /// # Errors
    /// The mask has bits that are no event of this protocol version. Upstream NRI also refuses such
    /// masks.
    pub fn from_subscription(bits: i32) -> Result<Self, UnknownEvents> {
        let bits = bits as u32;
        match bits & !Self::ALL.0 {
            0 if bits == 0 => Ok(Self::ALL),
            0 => Ok(Self(bits)),
            unknown => Err(UnknownEvents(unknown)),
        }
    }

    /// Parses a list of events as the configurations of upstream's plugins have it: names such as
    /// `CreateContainer` in upper or lower case, separated by commas. `pod` (or `podsandbox`) and
    /// `container` stand for all events with that word in their name, `all` for all events.
    ///
    /// # Errors
    /// A word is none of these.
    pub fn parse(list: &str) -> Result<Self, UnknownEventName> {
        let names = list.split(',').map(|name| name.trim().to_lowercase());
        names.into_iter().try_fold(Self::NONE, |mask, name| {
            let is_meant = |event: &Event| {
                let event = format!("{event:?}").replace('_', "").to_lowercase();
                match name.as_str() {
                    "all" => true,
                    "pod" | "podsandbox" => event.contains("pod"),
                    "container" => event.contains("container"),
                    _ => event == name,
                }
            };
            let named: Self = Self::ALL.iter().filter(is_meant).collect();
            if named.is_empty() { Err(UnknownEventName(name)) } else { Ok(mask.union(named)) }
        })
    }

    /// Returns the mask in the form of `ConfigureResponse.events`.
    pub fn bits(self) -> i32 {
        self.0 as i32
    }

    /// Whether `event` is in the set.
    pub fn contains(self, event: Event) -> bool {
        self.0 & Self::bit(event) != 0
    }

    /// Returns the set with `event` added.
    #[must_use]
    pub fn with(self, event: Event) -> Self {
        Self(self.0 | Self::bit(event))
    }

    /// Returns the set without `event`.
    #[must_use]
    pub fn without(self, event: Event) -> Self {
        Self(self.0 & !Self::bit(event))
    }

    /// Returns the events that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the events of the set, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        Event::VALUES.iter().copied().filter(move |e| self.contains(*e))
    }

    fn bit(event: Event) -> u32 {
        match event {
            Event::UNKNOWN | Event::LAST => 0,
            e => 1 << (e as u32 - 1),
        }
    }
}

impl FromIterator<Event> for EventMask {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        events.into_iter().fold(Self::NONE, Self::with)
    }
}

impl std::fmt::Debug for EventMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This protocol version has 14 events, which are the bits 0 to 13.
    #[test]
    fn zero_subscribes_to_all_events_and_unknown_bits_are_refused() {
        assert_eq!(EventMask::from_subscription(0), Ok(EventMask::ALL));
        assert_eq!(EventMask::from_subscription(1 << 14), Err(UnknownEvents(1 << 14)));
        assert_eq!(EventMask::from_subscription(-1), Err(UnknownEvents(!0x3fff)));
        assert_eq!(EventMask::ALL.iter().count(), 14);
    }

    #[test]
    fn a_list_names_events_and_groups_of_events() {
        let check = |list: &str, expected: &[Event]| {
            assert_eq!(EventMask::parse(list).unwrap(), expected.iter().copied().collect());
        };
        check("CreateContainer", &[Event::CREATE_CONTAINER]);
        check("runpodsandbox, STOPContainer", &[Event::RUN_POD_SANDBOX, Event::STOP_CONTAINER]);
        let pods = EventMask::parse("pod").unwrap();
        assert_eq!((pods.iter().count(), EventMask::parse("podsandbox")), (5, Ok(pods)));
        let containers = EventMask::parse("container").unwrap();
        assert_eq!(containers.union(pods), EventMask::ALL);
        assert_eq!(EventMask::parse("all"), Ok(EventMask::ALL));
        for (list, unknown) in [("", ""), ("pods", "pods"), ("all,UNKNOWN", "unknown")] {
            assert_eq!(EventMask::parse(list), Err(UnknownEventName(unknown.to_owned())));
        }
    }

    #[test]
    fn the_bit_of_an_event_is_its_number_minus_one() {
        let mask = EventMask::from_subscription(0b1000).unwrap();
        assert!(mask.contains(Event::CREATE_CONTAINER));
        assert_eq!(mask.iter().collect::<Vec<_>>(), [Event::CREATE_CONTAINER]);
        assert_eq!(EventMask::from_iter([Event::CREATE_CONTAINER]).bits(), 0b1000);
        assert!(mask.without(Event::CREATE_CONTAINER).is_empty());
        assert_eq!(mask.without(Event::STOP_CONTAINER), mask);
    }
}

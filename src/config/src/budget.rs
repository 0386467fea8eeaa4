//! `budget` of a policy: the time that a plugin may take for its replies.

use crate::duration;
use serde::{Deserialize, Deserializer, de::Error};
use std::{fmt, time::Duration};

/// Limits of a plugin's replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Time of a reply; a longer one is slow.
    #[serde(deserialize_with = "duration::deserialize")]
    pub time: Duration,
    /// Percentage of containers with slow replies that is still accepted, less than 100.
    #[serde(default = "default_share", deserialize_with = "percentage")]
    pub share: u8,
    /// Time during which requests skip the plugin, before it is tried again.
    #[serde(default = "default_pause", deserialize_with = "duration::deserialize")]
    pub pause: Duration,
}

fn default_share() -> u8 {
    50
}

fn default_pause() -> Duration {
    Duration::from_secs(30)
}

/// Reads a percentage of less than 100, with or without its sign.
fn percentage<'de, D: Deserializer<'de>>(d: D) -> Result<u8, D::Error> {
    struct Visitor;
    impl serde::de::Visitor<'_> for Visitor {
        type Value = u8;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a percentage below 100, such as \"50%\" or 50")
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<u8, E> {
            let percentage = u8::try_from(n).ok().filter(|percentage| *percentage < 100);
            percentage.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(n), &self))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u8, E> {
            let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
            let percentage = number.filter(|percentage| *percentage < 100);
            percentage.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }
    d.deserialize_any(Visitor)
}

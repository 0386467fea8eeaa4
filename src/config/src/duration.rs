//! Reads durations, see [`nri_values::parse_duration`]; a bare number means seconds.

use nri_values::parse_duration;
use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    struct Visitor;
    impl serde::de::Visitor<'_> for Visitor {
        type Value = Duration;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a duration such as \"5s\", or a number of seconds")
        }
        fn visit_str<E: Error>(self, s: &str) -> Result<Duration, E> {
            parse_duration(s).map_err(E::custom)
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<Duration, E> {
            u64::try_from(n)
                .map(Duration::from_secs)
                .map_err(|_| E::custom("a duration cannot be negative"))
        }
        fn visit_f64<E: Error>(self, n: f64) -> Result<Duration, E> {
            Duration::try_from_secs_f64(n).map_err(E::custom)
        }
    }
    d.deserialize_any(Visitor)
}

pub(crate) fn deserialize_option<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    struct Wrapped(#[serde(deserialize_with = "deserialize")] Duration);
    Ok(Some(Wrapped::deserialize(d)?.0))
}

//! Metrics in the text format of Prometheus, served by HTTP where the configuration says. Nothing
//! here runs for a container: the counters are atomics elsewhere, and a scrape reads them.

pub mod families;
mod http;
pub mod listener;

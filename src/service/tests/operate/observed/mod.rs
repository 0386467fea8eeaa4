//! Tests of what operators see of a running `nrid`: statistics of plugins, metrics, the log.

mod budget;
mod journal;
mod log_level;
mod metrics;
mod plugins;
mod trace;

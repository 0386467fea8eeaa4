//! Tests of plugins that the adaptation launches.

pub(crate) mod launched;
mod other_runtime;
mod outputs;
mod pinned;
mod privileges;
pub(crate) mod reload;
mod restarts;

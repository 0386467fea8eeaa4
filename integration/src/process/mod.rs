//! Processes of tests: on the host, in containers, traced, on a terminal.

pub(crate) mod container_process;
pub(crate) mod crash;
pub(crate) mod host_process;
pub(crate) mod terminal;

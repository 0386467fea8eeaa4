//! The `nrid` process: start and end, reload, restart, sockets, systemd, log.

pub mod activation;
pub mod attributes;
pub mod background;
pub mod handover;
pub mod idle;
mod journal;
mod journaled_output;
pub mod life;
pub mod lock;
pub mod log;
pub mod namespaces;
pub mod parent;
pub mod presence;
pub mod program;
pub mod ready;
pub mod reload;
pub mod restart;
pub mod sockets;
pub mod start;
pub mod systemd;
pub mod validate;

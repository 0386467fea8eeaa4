//! The `nrid` process: start and end, reload, restart, sockets, systemd, log; the plugins and the
//! socket that it shares with engines' own NRI.

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
pub mod plugin_config;
pub mod presence;
pub mod program;
pub mod ready;
pub mod reload;
pub mod restart;
pub mod shared_launch;
pub mod shared_plugins;
pub mod shared_socket;
pub mod sockets;
pub mod start;
pub mod systemd;
pub mod validate;

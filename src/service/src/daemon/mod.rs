//! The process: start, restart, sockets, log.

pub mod background;
pub mod idle;
pub mod lock;
pub mod log;
pub mod reload;
pub mod restart;
pub mod sharing;
pub mod sockets;
pub mod start;
pub mod systemd;

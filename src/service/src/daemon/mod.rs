//! The process: start, restart, sockets, settings, log.

pub mod background;
pub mod idle;
pub mod lock;
pub mod log;
pub mod policies;
pub mod reload;
pub mod restart;
pub mod settings;
pub mod sharing;
pub mod sockets;
pub mod start;
pub mod state_dir;
pub mod systemd;

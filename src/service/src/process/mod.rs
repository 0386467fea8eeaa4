//! This process: what it got at its start, its log and its sockets, and its end. Start from
//! [`this_process::ThisProcess`].

pub mod activation;
mod journal;
mod journaled_output;
pub mod log;
pub mod parent;
pub mod program;
pub mod sockets;
pub mod this_process;

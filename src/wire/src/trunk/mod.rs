//! The trunk multiplexes several byte streams over one socket. Start from
//! [`Trunk`](handle::Trunk).

pub(crate) mod closed;
pub(crate) mod conn;
pub(crate) mod frame;
pub(crate) mod handle;
pub(crate) mod limits;
mod output;
pub(crate) mod sink;
pub(crate) mod state;
mod tasks;

//! One plugin: its calls, its queue, its status, and the registry of all plugins.
//!
//! Nothing here decides in which order requests reach plugins ([`crate::order`]) or how a session
//! starts and ends ([`crate::session`]). Start from [`Plugin`](handle::Plugin).

pub(crate) mod breaker;
pub(crate) mod calls;
pub(crate) mod handle;
pub(crate) mod histogram;
pub(crate) mod kept_lines;
mod limit;
pub(crate) mod queue;
pub(crate) mod registrant;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod statistics;
pub(crate) mod status;
pub(crate) mod trace;
mod uncancelled;
pub(crate) mod undelivered;

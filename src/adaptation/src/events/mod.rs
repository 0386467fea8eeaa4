//! Handling of the protocol's events by [`Adaptation`](crate::adaptation::Adaptation).
//!
//! | file | events |
//! |---|---|
//! | `create` | `CreateContainer`, with validation: plugins adjust the container |
//! | `update` | `UpdateContainer` and `StopContainer`: plugins update containers |
//! | `notify` | all other events: plugins are notified, and can refuse some of them |
//! | `reply_log` | log lines for what plugins request in their replies |
//! | `withhold` | what of a reply has no effect: observed plugins, scopes of policies |
//! | `turn` | turns of plugins that are called one after the other, and the time of all of them |
//! | `rollback` | stop and removal after a refused creation, or a refused start of a pod |

mod create;
pub(crate) mod notify;
pub(crate) mod reply_log;
mod rollback;
mod turn;
pub(crate) mod update;
pub(crate) mod withhold;

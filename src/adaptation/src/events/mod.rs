//! Handling of the protocol's events by [`Adaptation`](crate::adaptation::Adaptation).
//!
//! | file | events |
//! |---|---|
//! | `create` | `CreateContainer`, with validation: plugins adjust the container |
//! | `update` | `UpdateContainer` and `StopContainer`: plugins update containers |
//! | `notify` | all other events: plugins are notified, and can refuse some of them |
//! | `rollback` | stop and removal after a refused creation, or a refused start of a pod |

mod create;
pub(crate) mod notify;
mod rollback;
pub(crate) mod update;

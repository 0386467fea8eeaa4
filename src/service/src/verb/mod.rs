//! The runtime verbs that have NRI events, a file per verb.

pub mod create;
pub mod draft;
pub mod hook;
pub mod shadow;
pub mod shown;
pub mod update;
pub mod update_args;

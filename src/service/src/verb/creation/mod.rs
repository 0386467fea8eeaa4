//! Creation of a container, common to `create`, `run` and `restore`: from the wrapper's request to
//! a record and an adjusted bundle. Start from [`prepare`].

pub mod adjusted_config;
pub mod changes;
pub mod commit;
pub mod draft;
pub mod dry_run;
mod exec_limits;
mod facts;
pub mod infra;
pub mod missed;
mod own_arguments;
mod plan;
pub mod pod_identity;
pub mod prepare;
mod withheld;

//! Tests that Docker and Podman share. `test_both!` defines two tests for each function, such as
//! `docker::verbs_without_events_work` and `podman::verbs_without_events_work`.

mod attacks;
mod crun;
pub(crate) mod failing;
mod labels;
mod life_cycle;
mod names;
mod policies;
mod rules;
mod samples;
mod topology;
mod update;

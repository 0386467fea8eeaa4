//! Tests that Docker and Podman share. Each function is two tests, such as
//! `docker::an_update_keeps_what_plugins_set` and `podman::an_update_keeps_what_plugins_set`.

mod crun;
pub(crate) mod failing;
mod life_cycle;
mod names;
mod update;

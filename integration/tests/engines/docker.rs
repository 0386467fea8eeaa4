//! Tests of features that only Docker has, with the wrapper as its default runtime.

mod daemon;
mod install;
mod names;
mod run;
mod tenants;
mod update;

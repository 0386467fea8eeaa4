//! Tests of Docker alone, with the wrapper as its default runtime.

mod daemon;
mod install;
mod names;
mod run;
mod update;

//! Tests of the wrapper with real low-level runtimes, real containers and real plugins. They are
//! one program, so that it is linked once and the properties of the machine are probed once.

mod bare;
mod broken;
mod bundles;
mod collisions;
mod create;
mod exec;
mod exits;
mod flood;
mod go;
mod late_hooks;
mod next_nrid;
mod notifications;
mod nrid_process;
mod operations;
mod policies;
mod refusals;
mod run;
mod shadow;
mod stopped;
mod terminal;
mod transparency;
mod unwritable_records;
mod validator;
mod values;
mod wrappers_at_once;

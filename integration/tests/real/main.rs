//! Tests of the wrapper with real low-level runtimes, real containers and real plugins. All tests
//! are one program, which is linked once and probes the properties of the machine once.

mod audit;
mod bare;
mod before_6_15;
mod broken;
mod bundles;
mod collisions;
mod create;
mod exec;
mod exits;
mod go;
mod hanging;
mod late_hooks;
mod notifications;
mod nrid;
mod odd_configs;
mod operations;
mod plugin_scope;
mod policies;
mod privileges;
mod refusals;
mod run;
mod runtime_failures;
mod shadow;
mod shipped;
mod stopped;
mod terminal;
mod transparency;
mod validator;
mod values;
mod wasm;
mod wrappers_at_once;

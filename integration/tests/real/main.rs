//! Real containers on real runtimes, adjusted and followed by real plugins through the wrapper. One
//! program, so that it is linked once and its tests share what is expensive to find out.

mod alike;
mod bare;
mod broken;
mod bundles;
mod collisions;
mod create;
mod exec;
mod flood;
mod go;
mod late_hooks;
mod meanwhile;
mod no_room;
mod operate;
mod policies;
mod refusals;
mod resident;
mod run;
mod shadow;
mod stopped;
mod succession;
mod terminal;
mod told;
mod validator;
mod values;
mod wrappers_at_once;

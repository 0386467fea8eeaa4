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

/// What a plugin hears of a container with a pod of its own, from the beginning to the start.
const TO_START: [&str; 6] = [
    "RunPodSandbox",
    "CreateContainer",
    "ValidateContainerAdjustment",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
];
/// From the end of its process on.
const FROM_STOP: [&str; 4] =
    ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"];

/// The events of a whole life, with others between.
fn life(between: &[&'static str]) -> Vec<&'static str> {
    [&TO_START[..], between, &FROM_STOP[..]].concat()
}

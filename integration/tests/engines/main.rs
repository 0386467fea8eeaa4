//! Real container engines with the wrapper as their runtime, and real plugins. One program, so that
//! it is linked once.
//!
//! `NRI_ENGINE_SUITES="trixie"` chooses the Debian suites whose engines are tested; without it, all
//! that `engines/setup.sh` has installed.

mod cri;
mod ctr;
mod docker;
mod own_nri;
mod podman;
mod restart;

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

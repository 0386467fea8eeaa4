//! Events of a container with a pod of its own, in order.

/// Events from the creation to the start.
pub const TO_START: [&str; 6] = [
    "RunPodSandbox",
    "CreateContainer",
    "ValidateContainerAdjustment",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
];

/// Events from the end of its process on.
pub const FROM_STOP: [&str; 4] =
    ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"];

/// Events of a container that the runtime failed to create, before those of its removal.
pub const REQUESTED: [&str; 3] =
    ["RunPodSandbox", "CreateContainer", "ValidateContainerAdjustment"];

/// The events of a whole life cycle, with others between.
pub fn life_cycle(between: &[&'static str]) -> Vec<&'static str> {
    [&TO_START[..], between, &FROM_STOP[..]].concat()
}

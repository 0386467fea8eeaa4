//! Expected events of a container that is its own pod, in order.

/// Events from the creation to the start.
pub const TO_START: [&str; 6] = [
    "RunPodSandbox",
    "CreateContainer",
    "ValidateContainerAdjustment",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
];

/// Events from the end of the container's process to its removal.
pub const FROM_STOP: [&str; 4] =
    ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"];

/// Events before the runtime's `create`. If `create` fails, the events of [`FROM_STOP`] follow.
pub const REQUESTED: [&str; 3] =
    ["RunPodSandbox", "CreateContainer", "ValidateContainerAdjustment"];

/// Events of a life cycle without updates, for plugins that do not validate.
pub const WITHOUT_VALIDATION: [&str; 9] = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "StopContainer",
    "StopPodSandbox",
    "RemoveContainer",
    "RemovePodSandbox",
];

/// Returns the events of a whole life cycle, with the events `between` start and stop.
pub fn life_cycle(between: &[&'static str]) -> Vec<&'static str> {
    [&TO_START[..], between, &FROM_STOP[..]].concat()
}

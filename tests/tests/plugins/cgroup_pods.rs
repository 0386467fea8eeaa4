//! Pods and mounts of the plugin `writable-cgroups`.

use crate::{
    pods::{self, Case, annotated_name},
    random::Random,
};
use std::path::Path;

/// Returns arguments with a file of mounts in which cgroups have these options.
pub(crate) fn arguments(dir: &Path, options: &str) -> Vec<String> {
    let file = dir.join("mountinfo");
    let text = format!(
        "35 24 0:31 / /run rw,nosuid,nodev - tmpfs tmpfs rw,mode=755\n\
         36 35 0:32 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 {options}\n"
    );
    std::fs::write(&file, text).unwrap();
    vec!["-host-mount-file".into(), file.to_str().unwrap().into()]
}

/// Returns a pod with annotations of several scopes.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for _ in 0..random.below(3) {
        let scope = match random.below(4) {
            0 => String::new(),
            1 => "/pod".to_owned(),
            2 => format!("/container.{}", annotated_name(random, &case)),
            _ => format!("/{}", case.container.name), // no scope
        };
        let values = ["true", "true", "true", "false", "True", "1", "yes", "", " true"];
        let key = format!("writable-cgroups.noderesource.dev{scope}");
        case.pod.annotations.insert(key, random.pick(&values).to_string());
    }
    case
}

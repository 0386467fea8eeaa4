//! What is set for the processes of a container: I/O priority, scheduling, sysctls, memory policy.

use crate::text::Text;
use nri_plugin::{
    Adjustment, ConfigurationError, from_go_yaml, from_yaml,
    proto::{IOPrioClass, LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy},
    proto::{MpolFlag, MpolMode},
};
use protobuf::Enum;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The value of an annotation is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidValue {
    #[error(transparent)]
    Yaml(#[from] ConfigurationError),
    #[error("unknown {what} {name:?}: use one of {known}")]
    Unknown { what: &'static str, name: String, known: String },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedIoPriority {
    class: Text,
    priority: i32,
}

/// Attributes of `sched_setattr(2)`; times in nanoseconds.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedScheduler {
    policy: Text,
    nice: i32,
    priority: i32,
    flags: Option<Vec<Text>>,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Arguments of `set_mempolicy(2)`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedMemoryPolicy {
    mode: Text,
    nodes: Text,
    flags: Option<Vec<Text>>,
}

/// Sets the I/O priority of an annotation.
pub(crate) fn io_priority(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let annotated: AnnotatedIoPriority = from_go_yaml::<Option<_>>(text)?.unwrap_or_default();
    let class: IOPrioClass = named("class", &annotated.class.0)?;
    adjustment.set_io_priority(class, annotated.priority);
    Ok(vec![format!("{} {}", annotated.class.0, annotated.priority)])
}

/// Sets the scheduling attributes of an annotation.
pub(crate) fn scheduler(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let annotated: AnnotatedScheduler = from_go_yaml::<Option<_>>(text)?.unwrap_or_default();
    let policy: LinuxSchedulerPolicy = named("policy", &annotated.policy.0)?;
    let flags = annotated.flags.unwrap_or_default();
    let flags = flags.iter().map(|flag| named::<LinuxSchedulerFlag>("flag", &flag.0));
    adjustment.set_scheduler(LinuxScheduler {
        policy: policy.into(),
        nice: annotated.nice,
        priority: annotated.priority,
        flags: flags.map(|flag| flag.map(Into::into)).collect::<Result<_, _>>()?,
        runtime: annotated.runtime,
        deadline: annotated.deadline,
        period: annotated.period,
        ..Default::default()
    });
    Ok(vec![annotated.policy.0])
}

/// Sets the sysctls of an annotation, and returns their names. Their case counts.
pub(crate) fn sysctls(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let sysctls: BTreeMap<String, Text> = from_yaml::<Option<_>>(text)?.unwrap_or_default();
    let set = sysctls.into_iter().map(|(name, value)| {
        adjustment.set_sysctl(&name, value.0);
        name
    });
    Ok(set.collect())
}

/// Sets the memory policy of an annotation.
pub(crate) fn memory_policy(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let annotated: AnnotatedMemoryPolicy = from_go_yaml::<Option<_>>(text)?.unwrap_or_default();
    let mode: MpolMode = named("mode", &annotated.mode.0)?;
    let flags = annotated.flags.unwrap_or_default();
    let flags =
        flags.iter().map(|flag| named("flag", &flag.0)).collect::<Result<Vec<MpolFlag>, _>>()?;
    adjustment.set_memory_policy(mode, annotated.nodes.0, flags);
    Ok(vec![annotated.mode.0])
}

/// Returns the constant of this name.
fn named<E: Enum>(what: &'static str, name: &str) -> Result<E, InvalidValue> {
    E::from_str(name).ok_or_else(|| {
        let known: Vec<_> = E::VALUES.iter().map(|value| format!("{value:?}")).collect();
        InvalidValue::Unknown { what, name: name.to_owned(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::proto::ContainerAdjustment;

    type Read = fn(&str, &mut Adjustment) -> Result<Vec<String>, InvalidValue>;

    fn adjusted(read: Read, text: &str) -> Result<ContainerAdjustment, InvalidValue> {
        let mut adjustment = Adjustment::new();
        read(text, &mut adjustment)?;
        Ok(adjustment.build().unwrap())
    }

    #[test]
    fn attributes_of_processes_are_set() {
        let set = adjusted(io_priority, "class: IOPRIO_CLASS_RT\npriority: 3").unwrap();
        let priority = &set.linux.io_priority;
        assert_eq!(priority.class.enum_value(), Ok(IOPrioClass::IOPRIO_CLASS_RT));
        assert_eq!(priority.priority, 3);

        let text = "policy: SCHED_DEADLINE\nnice: -5\npriority: 7\nruntime: 1\ndeadline: 2\n\
                    period: 3\nflags: [SCHED_FLAG_RECLAIM, SCHED_FLAG_KEEP_POLICY]\n";
        let set = adjusted(scheduler, text).unwrap().linux.scheduler.clone().unwrap();
        assert_eq!(set.policy.enum_value(), Ok(LinuxSchedulerPolicy::SCHED_DEADLINE));
        assert_eq!((set.nice, set.priority), (-5, 7));
        assert_eq!((set.runtime, set.deadline, set.period), (1, 2, 3));
        let expected =
            [LinuxSchedulerFlag::SCHED_FLAG_RECLAIM, LinuxSchedulerFlag::SCHED_FLAG_KEEP_POLICY];
        assert_eq!(set.flags, expected.map(Into::into));

        let text = "net.core.somaxconn: \"256\"\nkernel.msgmax: 65536\nkernel.x:\n";
        let set = adjusted(sysctls, text).unwrap().linux.sysctl.clone();
        let mut set: Vec<_> = set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        set.sort_unstable();
        let expected =
            [("kernel.msgmax", "65536"), ("kernel.x", ""), ("net.core.somaxconn", "256")];
        assert_eq!(set, expected);

        let text = "mode: MPOL_INTERLEAVE\nnodes: \"2,3\"\nflags: [MPOL_F_STATIC_NODES]\n";
        let set = adjusted(memory_policy, text).unwrap().linux.memory_policy.clone().unwrap();
        assert_eq!(set.mode.enum_value(), Ok(MpolMode::MPOL_INTERLEAVE));
        assert_eq!((set.nodes.as_str(), set.flags.len()), ("2,3", 1));
    }

    #[test]
    fn unknown_names_are_errors_with_the_known_ones() {
        let check = |read: Read, text: &str, expected: &str| {
            let error = adjusted(read, text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(
            io_priority,
            "class: best",
            "unknown class \"best\": use one of IOPRIO_CLASS_NONE, IOPRIO_CLASS_RT",
        );
        check(io_priority, "", "unknown class \"\"");
        check(scheduler, "policy: FIFO", "unknown policy \"FIFO\": use one of SCHED_NONE, ");
        check(scheduler, "policy: SCHED_RR\nflags: [X]", "unknown flag \"X\"");
        check(memory_policy, "nodes: \"0\"", "unknown mode \"\": use one of MPOL_DEFAULT, ");
        check(memory_policy, "mode: MPOL_BIND\nflags: [X]", "unknown flag \"X\"");
    }
}

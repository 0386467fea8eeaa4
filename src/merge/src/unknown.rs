//! Check for fields that this version of the protocol does not know. It runs for every reply, and
//! nearly no reply has such a field, so it does without reflection, which is slow.

use nri_api::proto::*;
use protobuf::Message;

/// A message that can have unknown fields, in itself or in the messages of its fields.
pub(crate) trait Unknown {
    /// Whether there is an unknown field.
    fn has_unknown(&self) -> bool;
}

/// Whether the message itself has an unknown field.
fn has_own(message: &impl Message) -> bool {
    message.special_fields().unknown_fields().iter().next().is_some()
}

/// Implements [`Unknown`]. The brackets after a message list its fields that hold one message,
/// several messages, and a map of messages.
macro_rules! messages {
    ($($message:ident [$($one:ident)*] [$($several:ident)*] [$($map:ident)*];)*) => {
        $(impl Unknown for $message {
            fn has_unknown(&self) -> bool {
                has_own(self)
                    $(|| self.$one.as_ref().is_some_and(Unknown::has_unknown))*
                    $(|| self.$several.iter().any(Unknown::has_unknown))*
                    $(|| self.$map.values().any(Unknown::has_unknown))*
            }
        })*
    };
}

messages! {
    ContainerAdjustment [hooks linux] [mounts env rlimits CDI_devices] [];
    ContainerUpdate [linux] [] [];
    Mount [] [] [];
    KeyValue [] [] [];
    Hooks [] [prestart create_runtime create_container start_container poststart poststop] [];
    LinuxContainerAdjustment
        [resources oom_score_adj io_priority seccomp_policy scheduler rdt memory_policy]
        [devices namespaces] [net_devices];
    POSIXRlimit [] [] [];
    CDIDevice [] [] [];
    LinuxContainerUpdate [resources] [] [];
    Hook [timeout] [] [];
    LinuxDevice [file_mode uid gid] [] [];
    LinuxResources [memory cpu blockio_class rdt_class pids] [hugepage_limits devices] [];
    OptionalInt [] [] [];
    LinuxIOPriority [] [] [];
    LinuxSeccomp [default_errno] [syscalls] [];
    LinuxNamespace [] [] [];
    LinuxNetDevice [] [] [];
    LinuxScheduler [] [] [];
    LinuxRdt [clos_id schemata enable_monitoring] [] [];
    LinuxMemoryPolicy [] [] [];
    OptionalFileMode [] [] [];
    OptionalUInt32 [] [] [];
    LinuxMemory
        [limit reservation swap kernel kernel_tcp swappiness disable_oom_killer use_hierarchy] []
        [];
    LinuxCPU [shares quota period realtime_runtime realtime_period] [] [];
    HugepageLimit [] [] [];
    OptionalString [] [] [];
    LinuxDeviceCgroup [major minor] [] [];
    LinuxPids [] [] [];
    LinuxSyscall [errno_ret] [args] [];
    OptionalRepeatedString [] [] [];
    OptionalBool [] [] [];
    OptionalInt64 [] [] [];
    OptionalUInt64 [] [] [];
    LinuxSeccompArg [] [] [];
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::reflect::{MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType};
    use protobuf::{MessageDyn, MessageFull, UnknownValue};

    /// Returns messages of a type with an unknown field each: in the message itself, and in each
    /// message below it.
    fn with_unknown(descriptor: &MessageDescriptor) -> Vec<(String, Box<dyn MessageDyn>)> {
        // No message of the protocol has a field 9999.
        let mut own = descriptor.new_instance();
        own.mut_special_fields_dyn().mut_unknown_fields().add_value(9999, UnknownValue::Varint(1));
        let mut all = vec![(descriptor.name().to_owned(), own)];
        for field in descriptor.fields() {
            let (kind, key) = match field.runtime_field_type() {
                RuntimeFieldType::Singular(kind) | RuntimeFieldType::Repeated(kind) => (kind, None),
                RuntimeFieldType::Map(key, kind) => (kind, Some(key)),
            };
            let RuntimeType::Message(inner) = kind else { continue };
            for (path, value) in with_unknown(&inner) {
                let mut message = descriptor.new_instance();
                let value = ReflectValueBox::Message(value);
                match (field.is_repeated(), &key) {
                    (true, _) => field.mut_repeated(&mut *message).push(value),
                    (_, Some(_)) => {
                        let key = ReflectValueBox::String("k".into());
                        field.mut_map(&mut *message).insert(key, value);
                    }
                    _ => field.set_singular_field(&mut *message, value),
                }
                all.push((format!("{}.{path}", field.name()), message));
            }
        }
        all
    }

    /// Checks messages with an unknown field each. There must be at least `min_count` messages, as
    /// a sign that they were built down to the innermost fields.
    fn check<M: Unknown + MessageFull + Clone>(min_count: usize) {
        assert!(!M::new().has_unknown());
        let all = with_unknown(&M::descriptor());
        assert!(all.len() >= min_count, "only {} messages were built", all.len());
        for (path, message) in all {
            let message = message.downcast_box::<M>().unwrap();
            assert!(message.has_unknown(), "the unknown field in {path} was not found");
        }
    }

    #[test]
    fn unknown_fields_are_found_in_every_message_of_a_reply() {
        check::<ContainerAdjustment>(60);
        check::<ContainerUpdate>(20);
    }
}

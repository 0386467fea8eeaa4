//! Checks that unknown enum numbers, also negative ones, survive decoding and encoding.

#![allow(clippy::unwrap_used)] // test helpers may panic

use nri_api::proto::{LinuxMemoryPolicy, LinuxScheduler, MpolFlag};
use protobuf::{EnumOrUnknown, Message, MessageFull};

fn check<M: MessageFull>(message: &M) {
    let bytes = message.write_to_bytes().unwrap();
    assert_eq!(bytes.len() as u64, message.compute_size(), "{message}");
    assert_eq!(&M::parse_from_bytes(&bytes).unwrap(), message);
}

#[test]
fn negative_and_large() {
    let numbers = [-1, i32::MIN, 0, 2, 99, i32::MAX];
    check(&LinuxScheduler {
        flags: numbers.map(EnumOrUnknown::from_i32).to_vec(),
        policy: EnumOrUnknown::from_i32(-7),
        ..Default::default()
    });
    check(&LinuxMemoryPolicy {
        flags: numbers.map(EnumOrUnknown::from_i32).to_vec(),
        mode: EnumOrUnknown::from_i32(-7),
        ..Default::default()
    });
}

/// Whatever form a plugin sends.
#[test]
fn packed_is_read_too() {
    let flags = |bytes: &[u8]| LinuxMemoryPolicy::parse_from_bytes(bytes).unwrap().flags;
    let both: Vec<EnumOrUnknown<MpolFlag>> =
        vec![EnumOrUnknown::from_i32(1), EnumOrUnknown::from_i32(2)];
    assert_eq!(flags(&[0x1a, 2, 1, 2]), both);
    assert_eq!(flags(&[0x18, 1, 0x18, 2]), both);
}

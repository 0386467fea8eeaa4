//! Checks that decoding and encoding preserve unknown enum numbers, including negative numbers.

#![allow(clippy::unwrap_used)] // test helpers may panic

use nri_api::proto::{LinuxMemoryPolicy, LinuxScheduler, MpolFlag};
use protobuf::{EnumOrUnknown, Message, MessageFull};

fn check<M: MessageFull>(message: &M) {
    let bytes = message.write_to_bytes().unwrap();
    assert_eq!(bytes.len() as u64, message.compute_size(), "{message}");
    assert_eq!(&M::parse_from_bytes(&bytes).unwrap(), message);
}

#[test]
fn negative_and_large_enum_numbers_are_preserved() {
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

/// Plugins may send a list of enums in either encoding.
#[test]
fn packed_and_unpacked_enum_lists_are_decoded() {
    let flags = |bytes: &[u8]| LinuxMemoryPolicy::parse_from_bytes(bytes).unwrap().flags;
    let expected: Vec<EnumOrUnknown<MpolFlag>> =
        vec![EnumOrUnknown::from_i32(1), EnumOrUnknown::from_i32(2)];
    // Field 3, packed (wire type 2) and unpacked (wire type 0).
    assert_eq!(flags(&[0x1a, 2, 1, 2]), expected);
    assert_eq!(flags(&[0x18, 1, 0x18, 2]), expected);
}

//! Each message of the protocol: a decoded message that is encoded and decoded again is equal, on
//! the wire and as protojson.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_fuzz::{Input, proto};
use protobuf::reflect::MessageDescriptor;
use std::sync::LazyLock;

static MESSAGES: LazyLock<Vec<MessageDescriptor>> = LazyLock::new(proto::descriptors);

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let descriptor = &MESSAGES[usize::from(input.byte()) % MESSAGES.len()];
    let Ok(message) = descriptor.parse_from_bytes(input.rest()) else { return };
    message.check_initialized_dyn().expect("proto3 requires nothing");
    let bytes = message.write_to_bytes_dyn().expect("a decoded message encodes");
    assert_eq!(bytes.len() as u64, message.compute_size_dyn(), "{message:?}");
    let again = descriptor.parse_from_bytes(&bytes).expect("an encoded message decodes");
    assert!(descriptor.eq(&*message, &*again), "{message:?}\n{again:?}");

    let json = protobuf_json_mapping::print_to_string(&*message).expect("any message prints");
    let again = protobuf_json_mapping::parse_dyn_from_str(descriptor, &json)
        .expect("printed protojson parses");
    // Protojson does not represent unknown fields.
    if !proto::has_unknown(&*message) {
        assert!(descriptor.eq(&*message, &*again), "{message:?}\n{json}\n{again:?}");
    }
});

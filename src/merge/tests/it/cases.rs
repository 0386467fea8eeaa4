//! Helpers for test cases that are written as text: messages as protojson, plugins as `NN-name`.

use nri_api::PluginId;
use nri_api::proto::{Container, CreateContainerResponse, OwningPlugins};
use nri_merge::{CreateMerge, CreateOutcome, MergeError};
use protobuf::MessageFull;

/// Container that the engine requests in the test cases.
pub(crate) const CONTAINER: &str = r#"{
    "id": "me", "name": "main", "args": ["sh"], "env": ["PATH=/bin", "BARE", "X=0"],
    "annotations": {"a": "0", "b": "0"},
    "mounts": [{"destination": "/proc"}, {"destination": "/data", "source": "/old"}],
    "rlimits": [{"type": "RLIMIT_CORE", "hard": 1, "soft": 1}],
    "hooks": {"prestart": [{"path": "/old"}]},
    "linux": {
        "namespaces": [{"type": "pid"}, {"type": "network"}],
        "devices": [{"path": "/dev/a", "type": "c"}],
        "sysctl": {"s.a": "0"},
        "netDevices": {"eth0": {"name": "e"}},
        "resources": {"memory": {"limit": {"value": 5}}, "hugepageLimits": [{"pageSize": "2MB",
        "limit": 1}]},
        "rdt": {"closId": {"value": "old"}}
    }
}"#;

/// Parses protojson.
pub(crate) fn message<M: MessageFull>(json: &str) -> M {
    protobuf_json_mapping::parse_from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

pub(crate) fn plugin(id: &str) -> PluginId {
    PluginId::from_file_name(id).unwrap()
}

/// Returns a reply with an adjustment only.
pub(crate) fn adjusting(json: &str) -> CreateContainerResponse {
    CreateContainerResponse { adjust: Some(message(json)).into(), ..Default::default() }
}

/// Merges adjustments of [`CONTAINER`].
pub(crate) fn create(replies: &[(&str, &str)]) -> Result<CreateOutcome, MergeError> {
    let mut merge = CreateMerge::new(Default::default(), message::<Container>(CONTAINER));
    for (id, adjust) in replies {
        merge.reply(&plugin(id), adjusting(adjust))?;
    }
    Ok(merge.finish())
}

/// Checks the merged adjustment, and the owners of the container's fields. `owners` has the form of
/// the protocol, with the numbers of enum `Field`; it is empty if no field has an owner.
#[track_caller]
pub(crate) fn check(replies: &[(&str, &str)], adjust: &str, owners: &str) {
    let outcome = create(replies).unwrap();
    assert_eq!(outcome.adjust, message(adjust), "{replies:?}");
    let expected: OwningPlugins = message(&match owners {
        "" => "{}".to_owned(),
        owners => format!(r#"{{"owners": {{"me": {owners}}}}}"#),
    });
    assert_eq!(outcome.owners, expected, "{replies:?}");
}

/// Checks that a reply is refused with this error, so that the merge fails.
#[track_caller]
pub(crate) fn refuse(replies: &[(&str, &str)], error: &str) {
    assert_eq!(create(replies).unwrap_err().to_string(), error, "{replies:?}");
}

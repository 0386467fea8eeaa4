//! Our protocol is that of upstream's Go module, in the version that the tests use.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use nri_api::NRI_VERSION;
use nri_tests::upstream::{
    Difference, Protocol, UpstreamError, module_dir, pinned_version, plugin_module,
};
use protobuf::descriptor::{
    FieldDescriptorProto, FileDescriptorProto, field_descriptor_proto::Label,
    field_descriptor_proto::Type,
};
use std::path::Path;
use std::process::Command;

/// Returns `None` without a Go toolchain, which is an error in CI.
fn unless_without_go<T>(result: Result<T, UpstreamError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(UpstreamError::NoGo(e)) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "go: {e}");
            eprintln!("SKIPPED: no go toolchain");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn our_protocol_is_that_of_the_module_that_the_tests_use() {
    let Some(dir) = unless_without_go(module_dir(&plugin_module(), None)) else { return };
    let upstream = Protocol::of_module(&dir).unwrap();
    let differences = Protocol::ours().differences(&upstream);
    let lines: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "upstream's {}: {lines:#?}", dir.display());
}

#[test]
fn the_announced_version_is_that_of_the_module_that_the_tests_use() {
    let Some(version) = unless_without_go(pinned_version(&plugin_module())) else { return };
    assert_eq!(version, NRI_VERSION);
    let versions = plugin_module().join("../versions").join(NRI_VERSION);
    assert!(versions.is_dir(), "no plugin on the stub {NRI_VERSION}");
}

/// Without it, a comparison of nothing with nothing would pass.
#[test]
fn an_older_version_lacks_what_was_added_since() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/plugins/versions/v0.9.0");
    let Some(dir) = unless_without_go(module_dir(&dir, None)) else { return };
    let differences = Protocol::ours().differences(&Protocol::of_module(&dir).unwrap());
    let name = "ConfigureResponse.failure_policy".to_owned();
    let removed = Difference::Removed(name, "FailurePolicy = 3".to_owned());
    assert!(differences.contains(&removed), "{differences:#?}");
    let method = Difference::Removed(
        "Plugin.ValidateContainerAdjustment".to_owned(),
        "rpc (ValidateContainerAdjustmentRequest) returns (ValidateContainerAdjustmentResponse)"
            .to_owned(),
    );
    assert!(differences.contains(&method), "{differences:#?}");
}

/// Returns the field of a message.
fn field<'a>(
    file: &'a mut FileDescriptorProto,
    message: &str,
    field: &str,
) -> &'a mut FieldDescriptorProto {
    let message = file.message_type.iter_mut().find(|m| m.name() == message).unwrap();
    message.field.iter_mut().find(|f| f.name() == field).unwrap()
}

/// Each change on one side is found, in both directions.
#[test]
fn a_difference_of_one_element_is_found() {
    type Change = fn(&mut FileDescriptorProto);
    let changes: &[(Change, &str)] = &[
        (
            |file| field(file, "ConfigureResponse", "events").set_number(7),
            "changes ConfigureResponse.events: int32 = 2 to int32 = 7",
        ),
        (
            |file| field(file, "ConfigureResponse", "events").set_type(Type::TYPE_UINT32),
            "changes ConfigureResponse.events: int32 = 2 to uint32 = 2",
        ),
        (
            |file| field(file, "ConfigureResponse", "events").set_label(Label::LABEL_REPEATED),
            "changes ConfigureResponse.events: int32 = 2 to repeated int32 = 2",
        ),
        (
            |file| field(file, "CreateContainerRequest", "pod").set_type_name(".x.Pod".into()),
            "changes CreateContainerRequest.pod: PodSandbox = 1 to .x.Pod = 1",
        ),
        (
            |file| field(file, "ConfigureResponse", "failure_policy").set_name("policy".into()),
            "removes ConfigureResponse.failure_policy: FailurePolicy = 3\n\
             adds ConfigureResponse.policy: FailurePolicy = 3",
        ),
        (|file| file.message_type.retain(|m| m.name() != "Empty"), "removes Empty: message"),
        (
            |file| {
                let event = file.enum_type.iter_mut().find(|e| e.name() == "Event").unwrap();
                event
                    .value
                    .iter_mut()
                    .find(|v| v.name() == "RUN_POD_SANDBOX")
                    .unwrap()
                    .set_number(99);
            },
            "changes Event.RUN_POD_SANDBOX: value 1 to value 99",
        ),
        (
            |file| {
                let service = file.service.iter_mut().find(|s| s.name() == "Runtime").unwrap();
                service.method.retain(|m| m.name() != "UpdateContainers");
            },
            "removes Runtime.UpdateContainers: rpc (UpdateContainersRequest) returns \
             (UpdateContainersResponse)",
        ),
        (
            |file| {
                let service = file.service.iter_mut().find(|s| s.name() == "Plugin").unwrap();
                let method = service.method.iter_mut().find(|m| m.name() == "Shutdown").unwrap();
                method.set_server_streaming(true);
            },
            "changes Plugin.Shutdown: rpc (Empty) returns (Empty) to rpc (Empty) returns (stream \
             Empty)",
        ),
        (
            |file| file.set_package("nri.v2".into()),
            "changes package: nri.pkg.api.v1alpha1 to nri.v2",
        ),
    ];
    let ours = nri_api::proto::file_descriptor().proto().clone();
    assert_eq!(Protocol::of(&ours), Protocol::ours());
    for (change, expected) in changes {
        let mut changed = ours.clone();
        change(&mut changed);
        let found = Protocol::ours().differences(&Protocol::of(&changed));
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines.join("\n"), *expected);
        let back = Protocol::of(&changed).differences(&Protocol::ours());
        assert_eq!(back.len(), found.len(), "{expected}: {back:?}");
    }
}

#[test]
fn without_network_the_error_says_what_is_missing() {
    if unless_without_go(pinned_version(&plugin_module())).is_none() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-upstream"));
    let output = command.env("GOPROXY", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("check-upstream: go list -m -versions "), "{error}");
    assert!(error.trim_end().ends_with("come from the network (GOPROXY)"), "{error}");
    // A version in the module cache needs no network.
    let output = command.arg(NRI_VERSION).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("its protocol is that of src/api/proto/nri.proto\n"), "{text}");
}

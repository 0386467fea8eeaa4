//! Texts and numbers of plugins and engines: plugin names, removal markers, subscriptions, and the
//! values that identify a container and its pod. Parsers do not panic, and a parsed value prints as
//! the text that it was parsed from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::{EventMask, Marked, PluginId, proto::Field};
use nri_engine::{Clues, Map, Role, identify};
use nri_fuzz::Input;
use protobuf::Enum;
use std::path::{Path, PathBuf};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let text = input.text();
    if let Ok(id) = PluginId::from_file_name(&text) {
        assert_eq!(id.to_string(), *text);
        assert!(text.is_ascii() && !text.contains('/'));
    }
    match Marked::parse(&text) {
        Marked::Set(key) => assert_eq!(key, text),
        Marked::Remove(key) => assert_eq!(format!("-{key}"), *text),
    }
    let bits = input.number() as i32;
    if let Ok(mask) = EventMask::from_subscription(bits) {
        assert!(mask.bits() == bits || bits == 0);
        assert_eq!(mask.iter().collect::<EventMask>(), mask);
    }
    if let Some(field) = Field::from_i32(bits) {
        assert_eq!(nri_api::field_kind(field).is_none(), field == Field::None);
    }

    let (id, cgroups_path, hostname, bundle) =
        (input.text(), input.text(), input.text(), input.text());
    let (root, runtime_root, mount) = (input.text(), input.text(), input.text());
    let (list, metadata, extension) =
        (input.part().to_vec(), input.part().to_vec(), input.part().to_vec());
    let mut annotations = Map::new();
    while !input.is_empty() {
        annotations.insert(input.text().into_owned(), input.text().into_owned());
    }
    let mut identity = identify(&Clues {
        id: &id,
        annotations: &annotations,
        bundle: Path::new(&*bundle),
        cgroups_path: &cgroups_path,
        hostname: &hostname,
        root: Path::new(&*root),
        mounts: &[PathBuf::from(&*mount)],
        runtime_root: Some(Path::new(&*runtime_root)),
        environment: &annotations,
    });
    if identity.role == Role::Alone {
        assert!(!identity.pod.id.is_empty() || id.is_empty());
    }
    // Metadata of engines may be arbitrary bytes, too.
    let _ = nri_engine::podman::complete(&mut identity, &id, &list);
    let _ = nri_engine::docker::complete(&mut identity, &id, &metadata, Some(&list), true);
    let kinds = ["io.cri-containerd.container.metadata", "io.cri-containerd.sandbox.metadata"];
    let metadata = nri_engine::containerd::Metadata {
        extensions: kinds.map(|kind| (kind.to_owned(), extension.clone())).into(),
        labels: annotations.clone(),
        ..Default::default()
    };
    let _ = nri_engine::containerd::complete(&mut identity, &metadata, Some(&metadata));
});

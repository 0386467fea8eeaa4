//! CDI files: a registry of them never panics, each device that it names can be injected or is
//! refused with a reason, and what comes out is a document that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::proto::{CDIDevice, ContainerAdjustment};
use nri_fuzz::{
    Input, host,
    json::{self, nulls},
};
use nri_spec::cdi::{CdiDeviceName, CdiEdits, CdiError, CdiRegistry, CdiSpecFile};
use nri_spec::{CdiResolver, ContainerInfo, OciConfig, apply, to_container};
use std::sync::LazyLock;

static DOCUMENT: LazyLock<OciConfig> = LazyLock::new(|| {
    OciConfig::parse(
        br#"{"process":{"env":["A=1","B"],"user":{"uid":5,"gid":0}},"mounts":[{"destination":"/b/c"},{"destination":"/a"}],
        "linux":{"namespaces":[{"type":"user"}],"devices":[{"path":"/dev/null","type":"c","major":1,"minor":3}]}}"#,
    )
    .expect("a document")
});

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let text = input.text();
    if let Ok(name) = CdiDeviceName::parse(&text) {
        assert_eq!(name.to_string(), *text);
    }
    let mut files = Vec::new();
    while !input.is_empty() && files.len() < 8 {
        let priority = usize::from(input.byte() & 1);
        if let Some(document) = json::parse(input.part()) {
            let _ = document.get("containerEdits").map(CdiEdits::parse);
            files.push(CdiSpecFile { path: format!("/cdi/{}", files.len()), priority, document });
        }
    }
    let all = files.len();
    let registry = CdiRegistry::new(files.clone());
    assert!(registry.errors().len() <= all);
    let names = registry.names();
    assert!(names.is_sorted());
    for name in &names {
        assert!(CdiDeviceName::parse(name).is_ok(), "{name}");
        inject(&registry, &[*name]);
    }
    inject(&registry, &names);
    assert!(matches!(
        registry.resolve(&["v/c=not-there-at-all"]),
        Err(CdiError::Unresolvable { .. })
    ));

    // A file that is right by itself is right among others; only its devices may be overruled.
    for file in files {
        let alone = CdiRegistry::new([file.clone()]);
        let is_wrong = registry
            .errors()
            .iter()
            .any(|e| matches!(e, CdiError::Spec { path, .. } if *path == file.path));
        assert_eq!(alone.errors().len(), usize::from(is_wrong));
        assert!(
            alone
                .names()
                .iter()
                .all(|name| alone.resolve(&[*name]).is_ok() && names.contains(name))
        );
    }
});

fn inject(registry: &CdiRegistry, names: &[&str]) {
    let device = |name: &&str| CDIDevice { name: (*name).to_owned(), ..Default::default() };
    let adjust = ContainerAdjustment {
        CDI_devices: names.iter().map(device).collect(),
        ..Default::default()
    };
    let mut document = DOCUMENT.clone();
    match apply(&mut document, &adjust, &host::context_with(registry)) {
        Err(_) => assert_eq!(document, *DOCUMENT),
        Ok(_) => {
            assert_eq!(nulls(document.value()), 0);
            OciConfig::parse(&document.to_bytes()).expect("the outcome parses");
            to_container(&document, &ContainerInfo::default()).expect("the outcome can be read");
        }
    }
}

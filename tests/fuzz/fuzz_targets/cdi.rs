//! CDI files: a registry never panics. Each device that it lists can be injected or is refused with
//! an error, and an OCI config with injected devices can be parsed.
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

static CONFIG: LazyLock<OciConfig> = LazyLock::new(|| {
    OciConfig::parse(
        br#"{
            "process":{"env":["A=1","B"],"user":{"uid":5,"gid":0}},
            "mounts":[{"destination":"/b/c"},{"destination":"/a"}],
            "linux":{
                "namespaces":[{"type":"user"}],
                "devices":[{"path":"/dev/null","type":"c","major":1,"minor":3}]
            }
        }"#,
    )
    .expect("a valid OCI config")
});

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let text = input.text();
    if let Ok(name) = CdiDeviceName::parse(&text) {
        assert_eq!(name.to_string(), *text);
    }
    let mut files = Vec::new();
    // 8 files are enough for conflicts between files of equal and of different priority.
    while !input.is_empty() && files.len() < 8 {
        let priority = usize::from(input.byte() & 1);
        if let Some(content) = json::parse(input.part()) {
            let _ = content.get("containerEdits").map(CdiEdits::parse);
            files.push(CdiSpecFile { path: format!("/cdi/{}", files.len()), priority, content });
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

    // A file is invalid in a registry of all files exactly if the file is invalid alone: another
    // file can override a device, but cannot make a file invalid.
    for file in files {
        let alone = CdiRegistry::new([file.clone()]);
        let is_invalid = registry
            .errors()
            .iter()
            .any(|e| matches!(e, CdiError::Spec { path, .. } if *path == file.path));
        assert_eq!(alone.errors().len(), usize::from(is_invalid));
        assert!(
            alone
                .names()
                .iter()
                .all(|name| alone.resolve(&[*name]).is_ok() && names.contains(name))
        );
    }
});

/// Injects devices into a copy of [`CONFIG`]. A refusal must leave the copy unchanged.
fn inject(registry: &CdiRegistry, names: &[&str]) {
    let device = |name: &&str| CDIDevice { name: (*name).to_owned(), ..Default::default() };
    let adjust = ContainerAdjustment {
        CDI_devices: names.iter().map(device).collect(),
        ..Default::default()
    };
    let mut config = CONFIG.clone();
    match apply(&mut config, &adjust, &host::context_with(registry)) {
        Err(_) => assert_eq!(config, *CONFIG),
        Ok(_) => {
            assert_eq!(nulls(config.value()), 0);
            OciConfig::parse(&config.to_bytes()).expect("the adjusted config parses");
            to_container(&config, &ContainerInfo::default())
                .expect("the adjusted config has a container");
        }
    }
}

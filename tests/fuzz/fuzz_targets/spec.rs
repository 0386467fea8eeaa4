//! `config.json` and an adjustment: values that are not adjusted keep their bytes, a refused
//! adjustment changes nothing, and the adjusted OCI config can be parsed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::proto::ContainerAdjustment;
use nri_fuzz::{Input, host, json::nulls};
use nri_spec::{ApplyContext, ContainerInfo, OciConfig, apply, to_container};
use protobuf::Message;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(original) = OciConfig::parse(input.part()) else { return };
    let bytes = original.to_bytes();
    let again = OciConfig::parse(&bytes).expect("a written config parses");
    assert_eq!(again.to_bytes(), bytes);
    use_accessors(&original);
    let readable = to_container(&original, &ContainerInfo::default()).is_ok();

    let mut config = original.clone();
    if let Ok(applied) = apply(&mut config, &ContainerAdjustment::new(), &ApplyContext::default()) {
        assert!(!applied.changed);
    }
    assert_eq!(config.to_bytes(), bytes, "an empty adjustment changes nothing");

    let adjust: ContainerAdjustment = input.message();
    let context = host::context();
    let Ok(applied) = apply(&mut config, &adjust, &context) else {
        assert_eq!(config.to_bytes(), bytes, "a refused adjustment changes nothing");
        return;
    };
    let after = config.to_bytes();
    assert_eq!(applied.changed, after != bytes, "`changed` is set if the bytes differ");
    let parsed = OciConfig::parse(&after).expect("the adjusted config parses");
    assert_eq!(parsed.to_bytes(), after);
    assert!(nulls(config.value()) <= nulls(original.value()), "no null is written");
    if readable {
        to_container(&config, &ContainerInfo::default()).expect("the container is still valid");
    }
    check_other_sections(&original, &config, &adjust);
    check_idempotent(config, adjust, &context);
});

fn use_accessors(config: &OciConfig) {
    let _ = (config.oci_version(), config.hostname(), config.rootfs_path(), config.process());
    let _ = (config.args(), config.env(), config.cwd(), config.terminal());
    let _ = (config.cgroups_path(), config.resources(), config.rootfs_propagation());
    let _ = (config.annotations().count(), config.mounts().count(), config.namespaces().count());
}

/// Checks that a section is unchanged if the adjustment has no field of the section, or if the
/// section cannot be adjusted.
fn check_other_sections(before: &OciConfig, after: &OciConfig, adjust: &ContainerAdjustment) {
    let ContainerAdjustment {
        annotations,
        mounts,
        env,
        hooks,
        linux,
        rlimits,
        CDI_devices,
        args,
        ..
    } = adjust;
    let cdi = !CDI_devices.is_empty();
    let process = cdi || !env.is_empty() || !args.is_empty() || !rlimits.is_empty();
    let in_process =
        linux.oom_score_adj.is_some() || linux.io_priority.is_some() || linux.scheduler.is_some();
    for (key, is_adjusted) in [
        ("annotations", !annotations.is_empty()),
        ("mounts", cdi || !mounts.is_empty()),
        ("hooks", cdi || hooks.compute_size() > 0),
        ("process", process || in_process),
        // `rshared` and `rslave` mounts change the propagation of the root.
        ("linux", cdi || linux.compute_size() > 0 || !mounts.is_empty()),
    ] {
        if !is_adjusted {
            assert_eq!(text(before, key), text(after, key), "{key}");
        }
    }
    let others = |config: &OciConfig| {
        let fields = config.value().as_object().expect("an object").iter();
        let others = fields.filter(|(key, _)| {
            !["annotations", "mounts", "hooks", "process", "linux"].contains(&key.as_str())
        });
        others.map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>()
    };
    assert_eq!(others(before), others(after));
}

fn text(config: &OciConfig, key: &str) -> Option<String> {
    config.value().get(key).map(ToString::to_string)
}

/// Checks that an adjustment that is applied again changes nothing. Fields whose entries are
/// appended are removed from the adjustment before, because a second application appends again.
fn check_idempotent(
    mut config: OciConfig,
    mut adjust: ContainerAdjustment,
    context: &ApplyContext<'_>,
) {
    adjust.hooks.take();
    adjust.CDI_devices.clear();
    if let Some(linux) = adjust.linux.as_mut() {
        linux.devices.clear();
        if let Some(resources) = linux.resources.as_mut() {
            resources.devices.clear();
        }
    }
    let first = apply(&mut config, &adjust, context).map(|_| config.to_bytes());
    let second = apply(&mut config, &adjust, context).map(|_| config.to_bytes());
    let lossy = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(first.as_ref().ok().map(lossy), second.as_ref().ok().map(lossy));
}

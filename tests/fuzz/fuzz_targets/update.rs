//! Resources of a running container: a difference that is overlaid has the same effect as the new
//! resources, and a conversion to the protocol and back changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::proto::LinuxResources;
use nri_fuzz::{
    Input, host,
    json::{self, nulls, without_nulls},
};
use nri_spec::{
    changed, merge_blockio_class, merge_resources, overlay, resources_to_nri, same_value,
};
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(old) = json::parse(input.part()) else { return };
    let new = json::parse(input.part()).unwrap_or_else(|| json!({}));
    check_differences(&old, &new);

    if let Ok(read) = resources_to_nri(&old) {
        let (mut written, mut expected) = (old.clone(), overlaid(&json!({}), &old));
        merge_resources(&mut written, &read);
        if read.pids.limit < -1 {
            expected["pids"]["limit"] = json!(-1); // runtimes accept no other negative number
        }
        assert_same(&written, &expected, "converted resources, written back, change nothing");
    }
    let resources: LinuxResources = input.message();
    let mut set = old.clone();
    merge_resources(&mut set, &resources);
    assert_eq!(nulls(&set), 0);
    let once = set.to_string();
    merge_resources(&mut set, &resources);
    assert_eq!(set.to_string(), once, "the same resources again change nothing");
    if resources_to_nri(&old).is_ok() {
        let read = resources_to_nri(&set).expect("merged resources convert");
        check_effective(&resources, &read);
    }

    let before = set.to_string();
    if merge_blockio_class(&mut set, &input.text(), &host::context()).is_err() {
        assert_eq!(set.to_string(), before, "a refused class changes nothing");
    }
});

fn check_differences(old: &Value, new: &Value) {
    let nothing = json!({});
    assert_eq!(changed(old, old), nothing, "equal resources have no difference");
    let difference = changed(old, new);
    assert_eq!(nulls(&difference), 0);
    let (after, direct) = (overlaid(old, &difference), overlaid(old, new));
    assert_eq!(nulls(&after), 0);
    // Empty objects are ignored: they have no value that could differ.
    assert_same(
        &json::without_empty(after.clone()),
        &json::without_empty(direct),
        "the difference has the same effect as all new resources",
    );
    assert_eq!(changed(&after, new), nothing, "the whole difference is applied");
    assert_eq!(overlaid(old, &nothing).to_string(), without_nulls(old.clone()).to_string());
    let again = json::without_empty(overlaid(&after, new)).to_string();
    assert_eq!(again, json::without_empty(after).to_string(), "the same overlay changes nothing");
}

fn overlaid(base: &Value, top: &Value) -> Value {
    let mut result = base.clone();
    overlay(&mut result, top);
    result
}

fn assert_same(one: &Value, other: &Value, what: &str) {
    assert!(same_value(one, other), "{what}:\n{one}\n{other}");
}

/// Checks that `read`, the converted resources, contains each value that was requested.
fn check_effective(requested: &LinuxResources, read: &LinuxResources) {
    macro_rules! check {
        ($($group:ident: $($field:ident),*;)*) => {$($(
            if requested.$group.$field.is_some() {
                assert_eq!(requested.$group.$field, read.$group.$field);
            }
        )*)*};
    }
    check! {
        memory: limit, reservation, swap, kernel, kernel_tcp, swappiness, disable_oom_killer,
            use_hierarchy;
        cpu: shares, quota, period, realtime_runtime, realtime_period;
    }
    for (requested, read) in
        [(&requested.cpu.cpus, &read.cpu.cpus), (&requested.cpu.mems, &read.cpu.mems)]
    {
        assert!(requested.is_empty() || requested == read);
    }
    for (name, value) in &requested.unified {
        assert_eq!(read.unified.get(name), Some(value));
    }
    if requested.pids.is_some() {
        assert_eq!(read.pids.limit, requested.pids.limit.max(-1));
    }
    if !requested.devices.is_empty() {
        assert_eq!(requested.devices, read.devices);
    }
    for limit in &requested.hugepage_limits {
        let last = requested.hugepage_limits.iter().rfind(|l| l.page_size == limit.page_size);
        assert!(read.hugepage_limits.iter().any(|l| Some(l) == last), "{limit:?}");
    }
}

//! Well-formed replies of plugins with arbitrary content. A rejected reply changes nothing, and its
//! error names the plugin. A single plugin that requests the whole outcome gets the same container.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::PluginId;
use nri_api::proto::*;
use nri_fuzz::{Input, proto::json};
use nri_merge::validator::{DefaultValidatorConfig, validate};
use nri_merge::{CreateMerge, UpdateMerge, UpdatesMerge};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    match input.byte() % 3 {
        0 => create(&mut input),
        1 => update(&mut input),
        _ => updates(&mut input),
    }
});

fn plugin(number: usize) -> PluginId {
    PluginId::new(&format!("{:02}", number % 100), "p").expect("a plugin")
}

/// Maximum number of plugins: enough for conflicts, while inputs stay short.
const PLUGINS: usize = 6;

fn create(input: &mut Input<'_>) {
    let rules = rules(input.byte());
    let (pod, container) = (input.message::<PodSandbox>(), input.message::<Container>());
    let mut merge = CreateMerge::new(pod.clone(), container.clone());
    for number in 0..PLUGINS {
        if input.is_empty() {
            break;
        }
        let before = merge.clone();
        let reply: CreateContainerResponse = input.message();
        match merge.reply(&plugin(number), reply) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(merge, before, "{error}");
                assert_eq!(error.plugin(), &plugin(number));
            }
        }
        assert_eq!(merge.request().container.id, container.id);
    }
    let outcome = merge.finish();
    assert_eq!(outcome.pristine, container);
    let request = outcome.validation();
    let _ = validate(&DefaultValidatorConfig::default(), &request);
    let _ = validate(&rules, &request);
    if outcome.adjust == ContainerAdjustment::default() {
        assert_eq!(outcome.container, container, "an empty outcome changes nothing");
    }

    let mut again = CreateMerge::new(pod, container);
    let adjust = Some(outcome.adjust.clone()).into();
    again
        .reply(&plugin(99), CreateContainerResponse { adjust, ..Default::default() })
        .expect("the outcome as a single reply has no conflict");
    let again = again.finish();
    let (again, first) =
        (unordered(again.adjust, again.container), unordered(outcome.adjust, outcome.container));
    assert!(again.0 == first.0, "again {}\nfirst {}", json(&again.0), json(&first.0));
    // `nri-spec` rejects a variable with `=` in its name. In the container of the merge, such a
    // variable may be mistaken for another one.
    if first.0.env.iter().any(|e| e.key.contains('=')) {
        return;
    }
    assert!(
        again.1 == first.1,
        "again {}\nfirst {}\nfor {}",
        json(&again.1),
        json(&first.1),
        json(&first.0)
    );
}

/// Sorts lists of entries with keys. Removals come first in an outcome, so entries may have another
/// order in the outcome than in the replies. Other lists keep their order.
fn unordered(
    mut adjust: ContainerAdjustment,
    mut container: Container,
) -> (ContainerAdjustment, Container) {
    fn sort<T>(list: &mut [T], key: impl Fn(&T) -> &String) {
        list.sort_by(|a, b| key(a).cmp(key(b)));
    }
    sort(&mut adjust.mounts, |m| &m.destination);
    sort(&mut adjust.env, |e| &e.key);
    sort(&mut container.mounts, |m| &m.destination);
    sort(&mut container.env, |e| e);
    for (devices, namespaces) in [
        adjust.linux.as_mut().map(|l| (&mut l.devices, &mut l.namespaces)),
        container.linux.as_mut().map(|l| (&mut l.devices, &mut l.namespaces)),
    ]
    .into_iter()
    .flatten()
    {
        sort(devices, |d| &d.path);
        sort(namespaces, |n| &n.type_);
    }
    (adjust, container)
}

/// Returns a validator configuration with one bit for each rule.
fn rules(bits: u8) -> DefaultValidatorConfig {
    let bit = |n: u8| bits >> n & 1 == 1;
    DefaultValidatorConfig {
        reject_oci_hook_adjustment: bit(0),
        reject_runtime_default_seccomp_adjustment: bit(1),
        reject_unconfined_seccomp_adjustment: bit(2),
        reject_custom_seccomp_adjustment: bit(3),
        reject_namespace_adjustment: bit(4),
        reject_sysctl_adjustment: bit(5),
        required_plugins: if bit(6) { vec!["p".into(), "10-x".into()] } else { Vec::new() },
        tolerate_missing_plugins_annotation: bit(7).then(|| "t".to_owned()),
    }
}

fn update(input: &mut Input<'_>) {
    let (container, requested) = (input.message::<Container>(), input.message::<LinuxResources>());
    let mut merge = UpdateMerge::new(PodSandbox::new(), container.clone(), requested.clone());
    for number in 0..PLUGINS {
        if input.is_empty() {
            break;
        }
        let before = merge.clone();
        if let Err(error) = merge.reply(&plugin(number), input.message()) {
            assert_eq!(merge, before, "{error}");
            assert_eq!(error.plugin(), &plugin(number));
        }
    }
    let outcome = merge.finish();
    assert_eq!(outcome.touched, outcome.merged_update.is_some());
    if !outcome.touched {
        assert_eq!(outcome.resources, requested);
    }
    check_one_per_container(&outcome.updates, &outcome.evictions);
    assert!(outcome.updates.iter().all(|u| u.container_id != container.id));
}

fn updates(input: &mut Input<'_>) {
    let mut merge = UpdatesMerge::new();
    for number in 0..PLUGINS {
        if input.is_empty() {
            break;
        }
        let before = merge.clone();
        let UpdateContainersRequest { update, evict, .. } = input.message();
        match merge.reply(&plugin(number), update) {
            Ok(()) => merge.evict(&plugin(number), evict),
            Err(error) => assert_eq!(merge, before, "{error}"),
        }
    }
    let outcome = merge.finish();
    check_one_per_container(&outcome.updates, &outcome.evictions);
}

/// Checks that each container has at most one update and at most one eviction.
fn check_one_per_container(updates: &[ContainerUpdate], evictions: &[ContainerEviction]) {
    for ids in [
        updates.iter().map(|u| &u.container_id).collect::<Vec<_>>(),
        evictions.iter().map(|e| &e.container_id).collect(),
    ] {
        let all = ids.len();
        let distinct: std::collections::BTreeSet<_> = ids.into_iter().collect();
        assert_eq!(distinct.len(), all, "one entry per container");
    }
}

//! The container that later plugins receive matches the adjusted OCI config: for all vectors, the
//! container in the outcome of the merge equals the container that is read from the adjusted OCI
//! config. `nri-merge` and `nri-spec` do not depend on each other, so each checks the other here.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_api::proto::{Container, CreateContainerResponse};
use nri_merge::CreateMerge;
use nri_spec::{ApplyContext, ContainerInfo, OciConfig, apply, to_container};
use nri_tests::vectors::{Case, Op};
use std::path::Path;

#[test]
fn later_plugins_receive_the_container_of_the_adjusted_config() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = ["vectors/create.jsonl", "differences.jsonl"];
    let text: String =
        files.iter().map(|file| std::fs::read_to_string(folder.join(file)).unwrap()).collect();
    let (mut compared, mut differ) = (0, Vec::new());
    for case in
        text.lines().map(|line| Case::parse(line).unwrap()).filter(|case| case.op == Op::Create)
    {
        let mut config = OciConfig::from_value(case.spec.clone()).unwrap();
        let info = ContainerInfo { id: case.container_id.clone(), ..Default::default() };
        let mut merge = CreateMerge::new(case.pod.clone(), to_container(&config, &info).unwrap());
        let merged = case.plugins.iter().try_for_each(|plugin| {
            let adjust = plugin.adjust.clone().into();
            merge.reply(&plugin.id, CreateContainerResponse { adjust, ..Default::default() })
        });
        let outcome = merge.finish();
        let context = ApplyContext {
            blockio: &|class| case.blockio_classes.get(class).cloned(),
            rdt: &|class| case.rdt_classes.get(class).cloned(),
            ..Default::default()
        };
        if merged.is_ok() && apply(&mut config, &outcome.adjust, &context).is_ok() {
            let read = to_container(&config, &info).unwrap();
            let (received, read) = (comparable(outcome.container), comparable(read));
            if received != read {
                differ.push(format!("{}: received {received}\nread {read}", case.id));
            }
            compared += 1;
        }
    }
    assert!(differ.is_empty(), "{} of {compared}: {}", differ.len(), differ.join("\n"));
    // The vectors have more than 450 creations that succeed. Fewer would mean that vectors were not
    // read, or that their merge or adjustment failed.
    assert!(compared > 450, "only {compared} containers compared");
}

/// Returns the container without differences that are intended:
/// - the order of mounts, namespaces and devices, which the OCI config determines;
/// - names of classes, which an OCI config does not contain;
/// - values that the adjustment of the OCI config derives: swap from the limit, device rules from
///   devices, RDT settings from a class;
/// - an I/O priority or scheduler without a class, which the adjustment ignores;
/// - empty messages, which equal absent ones.
fn comparable(mut container: Container) -> Container {
    container.mounts.sort_by(|a, b| a.destination.cmp(&b.destination));
    let linux = container.linux.mut_or_insert_default();
    linux.namespaces.sort_by(|a, b| a.type_.cmp(&b.type_));
    linux.devices.sort_by(|a, b| a.path.cmp(&b.path));
    linux.rdt.take();
    if linux.io_priority.class.value() == 0 {
        linux.io_priority.take();
    }
    if linux.scheduler.policy.value() == 0 {
        linux.scheduler.take();
    }
    let resources = linux.resources.mut_or_insert_default();
    resources.blockio_class.take();
    resources.rdt_class.take();
    resources.devices.clear();
    resources.memory.mut_or_insert_default().swap.take();
    resources.cpu.mut_or_insert_default();
    container.hooks.mut_or_insert_default();
    container
}

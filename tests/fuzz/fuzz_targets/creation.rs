//! Creates a container without I/O: parses `config.json`, merges the replies of plugins, and
//! adjusts the OCI config. The container in the outcome of the merge must equal the container that
//! is read from the adjusted OCI config.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_api::PluginId;
use nri_api::proto::{Container, PodSandbox};
use nri_fuzz::{Input, host, proto::json};
use nri_merge::CreateMerge;
use nri_spec::{ContainerInfo, OciConfig, apply, to_container};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(mut config) = OciConfig::parse(input.part()) else { return };
    let info = ContainerInfo { id: "me".into(), ..Default::default() };
    let Ok(container) = to_container(&config, &info) else { return };
    let mut merge = CreateMerge::new(PodSandbox::new(), container);
    for index in ["00", "01", "02", "03"] {
        if !input.is_empty() {
            let plugin = PluginId::new(index, "p").expect("a plugin");
            let _ = merge.reply(&plugin, input.message());
        }
    }
    let outcome = merge.finish();
    if apply(&mut config, &outcome.adjust, &host::context()).is_ok()
        && outcome.adjust.CDI_devices.is_empty()
    {
        let read = to_container(&config, &info).expect("an adjusted config has a container");
        let (mut merged, mut read) = (comparable(outcome.container), comparable(read));
        // A memory limit of 0 is not written to the OCI config, but plugins receive it.
        if outcome.adjust.linux.resources.memory.limit.as_ref().is_some_and(|l| l.value == 0) {
            for container in [&mut merged, &mut read] {
                container
                    .linux
                    .mut_or_insert_default()
                    .resources
                    .mut_or_insert_default()
                    .memory
                    .take();
            }
        }
        assert!(
            merged == read,
            "merged {}\nread {}\nfor {}",
            json(&merged),
            json(&read),
            json(&outcome.adjust)
        );
    }
});

/// Returns the container without the intended differences, which `tests/tests/plugin_view.rs`
/// lists.
fn comparable(mut container: Container) -> Container {
    // A variable that one plugin removes and another sets is the last one in the merged container,
    // but keeps its position in the OCI config.
    container.env.sort();
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
    if let Some(pids) = resources.pids.as_mut() {
        // Any negative number means unlimited, and is written as -1.
        pids.limit = pids.limit.max(-1);
    }
    container.hooks.mut_or_insert_default();
    container
}

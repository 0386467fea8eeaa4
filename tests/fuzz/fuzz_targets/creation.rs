//! A creation from end to end, without I/O: `config.json`, replies of plugins, the merge, the
//! adjusted OCI config. The container that plugins were shown last is the one in that OCI config.
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
        let real = to_container(&config, &info).expect("an adjusted document can be read");
        let (mut seen, mut real) = (comparable(outcome.container), comparable(real));
        // A limit of 0 is none for the OCI config, but plugins see it.
        if outcome.adjust.linux.resources.memory.limit.as_ref().is_some_and(|l| l.value == 0) {
            for container in [&mut seen, &mut real] {
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
            seen == real,
            "seen {}\nreal {}\nfor {}",
            json(&seen),
            json(&real),
            json(&outcome.adjust)
        );
    }
});

/// Without what is right to differ, as in the test over the vectors (`tests/tests/seen.rs`).
fn comparable(mut container: Container) -> Container {
    // What one plugin removed and another sets is new to the next; in the OCI config it keeps its
    // place.
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
        // any negative number means unlimited, and is written as -1
        pids.limit = pids.limit.max(-1);
    }
    container.hooks.mut_or_insert_default();
    container
}

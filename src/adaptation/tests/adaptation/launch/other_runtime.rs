//! Plugins of a directory that another NRI runtime launches for its own containers, too.

use crate::launch::launched::{Dirs, results};
use crate::launch::reload::{expected, outcomes};
use crate::missed::missed;
use nri_adaptation::{OtherRuntime, PluginPolicy};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Why a plugin of a single instance is not launched.
const WHY: &str = "it manages resources of the whole node, and containerd (process 7) launches it \
                   for its own containers; `nrictl install containerd --nri ours` ends that";

fn containerd() -> Option<OtherRuntime> {
    Some(OtherRuntime {
        name: "containerd (process 7)".into(),
        remedy: "nrictl install containerd --nri ours".into(),
    })
}

fn policy(plugin: &str, single_instance: Option<bool>, required: bool) -> PluginPolicy {
    PluginPolicy { plugin: plugin.into(), single_instance, required, ..PluginPolicy::default() }
}

#[tokio::test]
async fn plugins_are_launched_beside_another_runtime_but_for_those_of_the_whole_node() {
    let mut dirs = Dirs::new();
    dirs.config.other_runtime = containerd();
    dirs.config.policies =
        vec![policy("balloons", Some(false), false), policy("marked", Some(true), false)];
    for name in ["20-topology", "30-marked", "40-balloons"] {
        dirs.plugin(name, &dirs.fixture());
    }
    let (harness, launched) = dirs.start().await;
    assert_eq!(
        results(&launched),
        expected(&[("20-topology", WHY), ("30-marked", WHY), ("40-balloons", "ok 40-balloons"),])
    );
    let missing = |name: &str| format!("{name}: it does not run: {WHY}");
    assert_eq!(missed(&harness).await, ["20-topology", "30-marked"].map(missing));

    // A container that requires the plugin is refused, with the reason.
    let mut config = dirs.config.clone();
    config.policies.push(policy("topology", None, true));
    let withheld = format!("withheld: {WHY}");
    let reloaded = outcomes(harness.adaptation.reload(config.clone()).await);
    assert_eq!(
        reloaded,
        expected(&[("20-topology", &withheld), ("30-marked", &withheld), ("40-balloons", "kept"),])
    );
    let refusal = harness.create("c").await.unwrap_err();
    let expected_refusal = format!(
        "required plugin topology is not active (it does not run: {WHY}), so c cannot be created"
    );
    assert_eq!(refusal, expected_refusal);

    // The other runtime ends: what was withheld is launched, and what was removed is not missed.
    fs::remove_file(config.plugin_path.join("30-marked")).unwrap();
    config.other_runtime = None;
    let reloaded = outcomes(harness.adaptation.reload(config.clone()).await);
    assert_eq!(reloaded, expected(&[("20-topology", "launched"), ("40-balloons", "kept")]));
    let names: Vec<_> =
        harness.adaptation.plugins().into_iter().filter_map(|p| Some(p.id?.to_string())).collect();
    assert_eq!(names, ["20-topology", "40-balloons"]);

    // One that begins later does not end a plugin on which containers depend.
    config.other_runtime = containerd();
    let reloaded = outcomes(harness.adaptation.reload(config).await);
    assert!(reloaded.contains(&("20-topology".to_owned(), "kept".to_owned())), "{reloaded:?}");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_start_does_not_fail_for_a_required_plugin_that_another_runtime_launches() {
    let mut dirs = Dirs::new();
    dirs.config.other_runtime = containerd();
    dirs.config.policies = vec![policy("topology", None, true)];
    dirs.plugin("20-topology", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    assert!(harness.create("c").await.unwrap_err().contains(WHY));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn plugins_of_the_own_directory_have_precedence_and_are_always_launched() {
    let mut dirs = Dirs::new();
    dirs.config.other_runtime = containerd();
    dirs.config.own_plugin_path = dirs.file("own");
    fs::create_dir(&dirs.config.own_plugin_path).unwrap();
    for name in ["10-logger", "20-topology", "30-shared"] {
        let path = dirs.plugin(name, &dirs.fixture());
        if name != "30-shared" {
            fs::copy(path, dirs.config.own_plugin_path.join(name)).unwrap();
        }
    }
    let (harness, launched) = dirs.start().await;
    let ok = ["10-logger", "20-topology", "30-shared"];
    assert_eq!(results(&launched), ok.map(|name| (name.to_owned(), format!("ok {name}"))).to_vec());
    assert_eq!(harness.active_plugins(), ok);
    // A plugin that was enabled is not switched off by its mode: what runs stays.
    let enabled = dirs.config.own_plugin_path.join("20-topology");
    fs::set_permissions(&enabled, fs::Permissions::from_mode(0o644)).unwrap();
    let reloaded = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    let unusable = ("20-topology".to_owned(), "unusable: not executable".to_owned());
    assert!(reloaded.contains(&unusable), "{reloaded:?}");
    assert_eq!(harness.active_plugins(), ok);
    fs::set_permissions(&enabled, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(dirs.config.own_plugin_path.join("10-logger")).unwrap();
    let reloaded = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    let gone: Vec<_> = reloaded.iter().filter(|(_, outcome)| outcome != "kept").collect();
    let shared = "ignored: another file of this name is launched in its place";
    assert_eq!(
        gone,
        expected(&[
            ("10-logger", "ended: file removed"),
            ("10-logger", "launched"),
            ("20-topology", shared),
        ])
        .iter()
        .collect::<Vec<_>>()
    );
    harness.adaptation.shutdown().await;
}

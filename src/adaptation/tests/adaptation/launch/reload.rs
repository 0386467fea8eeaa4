//! Reloads: a new configuration, and a changed plugin directory, while plugins run.

use crate::harness::*;
use crate::launch::launched::{Dirs, exists};
use nri_adaptation::{
    PendingReload, Permissions, PluginPolicy, PluginState, ReloadAction, ReloadOutcome,
    ReloadedPlugin,
};
use std::fs;
use std::time::{Duration, SystemTime};

pub(crate) fn outcomes(reloaded: Vec<ReloadedPlugin>) -> Vec<(String, String)> {
    let text = |change: ReloadedPlugin| {
        let name = change.path.file_name().unwrap().to_string_lossy().into_owned();
        let text = match change.outcome {
            ReloadOutcome::Kept => "kept".to_owned(),
            ReloadOutcome::Launched => "launched".to_owned(),
            ReloadOutcome::Relaunched(why) => format!("relaunched: {why}"),
            ReloadOutcome::Ended(why) => format!("ended: {why}"),
            ReloadOutcome::Failed(why) => format!("failed: {why}"),
            ReloadOutcome::Unusable(why) => format!("unusable: {why}"),
            ReloadOutcome::Withheld(why) => format!("withheld: {why}"),
            ReloadOutcome::Ignored(why) => format!("ignored: {why}"),
        };
        (name, text)
    };
    reloaded.into_iter().map(text).collect()
}

pub(crate) fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn pid(harness: &Harness, name: &str) -> u32 {
    let plugins = harness.adaptation.plugins();
    let has_name =
        |p: &&nri_adaptation::PluginStatus| p.id.as_ref().is_some_and(|id| id.to_string() == name);
    plugins.iter().find(has_name).unwrap_or_else(|| panic!("no {name} in {plugins:?}")).pid.unwrap()
}

async fn pending(harness: &Harness) -> PendingReload {
    harness.adaptation.pending_reload(Duration::from_secs(60)).await.unwrap()
}

#[tokio::test]
async fn a_reload_launches_new_relaunches_changed_and_ends_removed_plugins() {
    let dirs = Dirs::new();
    for name in ["10-kept", "20-configured", "30-replaced", "40-removed", "50-off"] {
        dirs.plugin(name, &dirs.fixture());
    }
    let (harness, _) = dirs.start().await;
    let before =
        ["10-kept", "20-configured", "30-replaced", "40-removed"].map(|name| pid(&harness, name));
    assert_eq!(
        outcomes(harness.adaptation.reload(dirs.config.clone()).await)
            .iter()
            .filter(|c| c.1 == "kept")
            .count(),
        5
    );

    fs::write(dirs.config.plugin_config_path.join("configured.conf"), "new").unwrap();
    dirs.plugin("30-replaced", &dirs.fixture());
    fs::remove_file(dirs.config.plugin_path.join("40-removed")).unwrap();
    fs::set_permissions(
        dirs.config.plugin_path.join("50-off"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    dirs.plugin("05-new", &dirs.fixture());
    dirs.plugin("badname", "");
    let actions: Vec<_> =
        pending(&harness).await.actions.into_iter().map(|(_, action)| action).collect();
    let bad = "plugin file name \"badname\" is not of the form NN-name";
    assert_eq!(
        actions,
        [
            ReloadAction::Launch { new: true },
            ReloadAction::Relaunch("configuration changed"),
            ReloadAction::Relaunch("program changed"),
            ReloadAction::End("file removed"),
            ReloadAction::End("file no longer executable"),
            ReloadAction::Unusable(bad.to_owned()),
        ]
    );
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    assert_eq!(
        changes,
        expected(&[
            ("05-new", "launched"),
            ("10-kept", "kept"),
            ("20-configured", "relaunched: configuration changed"),
            ("30-replaced", "relaunched: program changed"),
            ("40-removed", "ended: file removed"),
            ("50-off", "ended: file no longer executable"),
            ("badname", &format!("unusable: {bad}")),
        ])
    );
    assert_eq!(harness.active_plugins(), ["05-new", "10-kept", "20-configured", "30-replaced"]);
    let mut closed = harness.log.of("closed");
    closed.sort();
    assert_eq!(
        closed,
        [
            "20-configured: configuration changed",
            "30-replaced: program changed",
            "40-removed: file removed",
            "50-off: file no longer executable",
        ]
    );
    assert_eq!(pid(&harness, "10-kept"), before[0]);
    for ended in &before[1..] {
        assert!(!exists(*ended), "the previous process still exists");
    }
    assert!(
        harness.adaptation.plugins().iter().all(|p| p.state == PluginState::Active),
        "an ended plugin is listed"
    );
    let off = dirs.config.plugin_path.join("50-off");
    assert_eq!(
        pending(&harness).await.actions,
        [
            (off, ReloadAction::Ignore("not executable")),
            (dirs.config.plugin_path.join("badname"), ReloadAction::Unusable(bad.to_owned())),
        ]
    );
    let again = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    assert!(again.contains(&("50-off".to_owned(), "ignored: not executable".to_owned())));
    // Two plugins were relaunched and two ended.
    assert_eq!(fs::read_to_string(dirs.file("shutdown")).unwrap(), "shutdown".repeat(4));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn new_permissions_apply_at_once_and_new_privileges_and_timeouts_by_a_relaunch() {
    let dirs = Dirs::new();
    dirs.plugin("10-a", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let first = pid(&harness, "10-a");
    harness.create("before").await.unwrap();
    let mut config = dirs.config.clone();
    let permissions = Permissions::new(None::<[&str; 0]>, ["annotations"]).unwrap();
    config.policies.push(PluginPolicy {
        plugin: "a".into(),
        permissions,
        ..PluginPolicy::default()
    });
    assert_eq!(
        outcomes(harness.adaptation.reload(config.clone()).await),
        expected(&[("10-a", "kept")])
    );
    assert_eq!(pid(&harness, "10-a"), first);
    let refused = harness.create("after").await.unwrap_err();
    assert!(refused.contains("annotations"), "{refused}");

    config.request_timeout = Duration::from_secs(59);
    let changes = outcomes(harness.adaptation.reload(config.clone()).await);
    assert_eq!(changes, expected(&[("10-a", "relaunched: timeouts changed")]));
    config.policies[0].privileges.no_new_privs = true;
    let changes = outcomes(harness.adaptation.reload(config.clone()).await);
    assert_eq!(changes, expected(&[("10-a", "relaunched: privileges changed")]));
    config.plugin_variables = vec![("A".to_owned(), "b".to_owned())];
    let changes = outcomes(harness.adaptation.reload(config).await);
    assert_eq!(changes, expected(&[("10-a", "relaunched: variables changed")]));
    let status = fs::read_to_string(format!("/proc/{}/status", pid(&harness, "10-a"))).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn no_container_is_created_while_a_plugin_is_relaunched() {
    let dirs = Dirs::new();
    let (started, proceed) = (dirs.file("started"), dirs.file("proceed"));
    dirs.plugin("10-a", &dirs.fixture());
    let mut config = dirs.config.clone();
    // Required: a creation without it would be refused.
    config.policies.push(PluginPolicy {
        plugin: "10-a".into(),
        required: true,
        ..PluginPolicy::default()
    });
    let (harness, _) = Harness::start(config.clone()).await.unwrap();
    let _other = harness.plugin("20-b", &[nri_api::proto::Event::CREATE_CONTAINER], Quiet).await;
    let wait = format!(
        "echo > {}\nwhile [ ! -e {} ]; do /bin/sleep 0.01; done\n{}",
        started.display(),
        proceed.display(),
        dirs.fixture()
    );
    dirs.plugin("10-a", &wait);
    let adaptation = harness.adaptation.clone();
    let reloading = tokio::spawn(async move { adaptation.reload(config).await });
    while !started.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let creating = harness.spawn_create("c");
    run_until_idle().await;
    assert!(!creating.is_finished());
    fs::write(proceed, "").unwrap();
    let changes = outcomes(reloading.await.unwrap());
    assert_eq!(changes, expected(&[("10-a", "relaunched: program changed")]));
    let consulted = creating.await.unwrap().unwrap().consulted;
    assert_eq!(consulted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10-a", "20-b"]);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_plugin_ends_only_after_the_requests_that_were_in_progress_at_the_reload() {
    let dirs = Dirs::new();
    dirs.plugin("10-a", &dirs.fixture());
    let mut config = dirs.config.clone();
    config.policies.push(PluginPolicy {
        plugin: "10-a".into(),
        required: true,
        ..PluginPolicy::default()
    });
    let (harness, _) = Harness::start(config.clone()).await.unwrap();
    let first = pid(&harness, "10-a");
    // A second plugin blocks the request after the first has replied.
    struct Slow(std::sync::Arc<Gate>);
    #[async_trait::async_trait]
    impl Script for Slow {
        async fn create(
            &self,
            _: &nri_wire::RuntimeClient,
            _: nri_api::proto::CreateContainerRequest,
        ) -> nri_wire::ttrpc::Result<nri_api::proto::CreateContainerResponse> {
            self.0.pass().await;
            Ok(nri_api::proto::CreateContainerResponse::new())
        }
    }
    let gate = Gate::new();
    let _slow = harness
        .plugin("20-slow", &[nri_api::proto::Event::CREATE_CONTAINER], Slow(gate.clone()))
        .await;
    let creating = harness.spawn_create("c");
    harness.log.wait("20-slow create_container c").await;
    dirs.plugin("10-a", &dirs.fixture());
    let adaptation = harness.adaptation.clone();
    let reloading = tokio::spawn(async move { adaptation.reload(config).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        exists(first) && !reloading.is_finished(),
        "the plugin ended while a request needed it"
    );
    gate.open();
    creating.await.unwrap().expect("the required plugin is active");
    assert_eq!(
        outcomes(reloading.await.unwrap()),
        expected(&[("10-a", "relaunched: program changed")])
    );
    assert!(!exists(first));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_reload_launches_or_removes_plugins_that_wait_for_a_restart() {
    let mut dirs = Dirs::new();
    // Longer than the test, so that only the reload launches the plugins again.
    dirs.config.restart_backoff = Duration::from_secs(1000);
    dirs.config.restart_backoff_limit = Duration::from_secs(1000);
    dirs.plugin("10-mended", "exit 1");
    dirs.plugin("20-removed", "exit 1");
    dirs.plugin("30-broken", "exit 1");
    let (harness, _) = dirs.start().await;
    dirs.plugin("10-mended", &dirs.fixture());
    fs::remove_file(dirs.config.plugin_path.join("20-removed")).unwrap();
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    let failed = "failed: ended before it registered: the program exited with code 1";
    assert_eq!(
        changes,
        expected(&[
            ("10-mended", "relaunched: program changed"),
            ("20-removed", "ended: file removed"),
            ("30-broken", failed),
        ])
    );
    assert_eq!(harness.active_plugins(), ["10-mended"]);
    assert_eq!(harness.adaptation.plugins().len(), 2, "20-removed is still listed");
    harness.adaptation.shutdown().await;
}

/// The failures of the previous program say nothing about the new one.
#[tokio::test]
async fn a_changed_plugin_starts_with_the_first_pause() {
    let mut dirs = Dirs::new();
    // Longer than the test, so that only reloads launch the plugin again.
    let first = Duration::from_secs(1000);
    dirs.config.restart_backoff = first;
    dirs.config.restart_backoff_limit = first * 1000;
    dirs.plugin("10-a", "exit 1");
    let (harness, _) = dirs.start().await;
    let reload = async |times| {
        harness.adaptation.reload(dirs.config.clone()).await;
        harness.log.wait_times("manager 10-a Restarting", times).await;
        let next = harness.adaptation.plugins()[0].next_launch.unwrap();
        next.duration_since(SystemTime::now()).unwrap()
    };
    assert!(reload(2).await > first);
    assert!(reload(3).await > first * 3);
    dirs.plugin("10-a", "exit 2");
    assert!(reload(4).await <= first);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_plugin_that_refuses_its_new_configuration_continues_with_the_previous_one() {
    let dirs = Dirs::new();
    dirs.plugin("10-a", &dirs.fixture());
    let file = dirs.config.plugin_config_path.join("a.conf");
    fs::write(&file, "one").unwrap();
    let (harness, _) = dirs.start().await;
    let config = async |id: &str| {
        let outcome = harness.create(id).await.unwrap();
        outcome.adjust.annotations["config"].clone()
    };
    for (id, text) in [("a", "refused"), ("b", "refused")] {
        fs::write(&file, text).unwrap();
        let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
        let reason = &changes[0].1;
        // The fixture writes it to its standard error as well.
        assert_eq!(reason.matches("line 1: mistake").count(), 1, "{reason}");
        assert!(reason.ends_with("it continues with its previous configuration"), "{reason}");
        assert_eq!(harness.active_plugins(), ["10-a"]);
        assert_eq!(config(id).await, "one");
        // The next reload tries the new configuration again.
        let due = ReloadAction::Relaunch("configuration changed");
        let pending = pending(&harness).await;
        assert_eq!(pending.actions[0].1, due);
        let why = pending.refused.values().next().unwrap();
        assert!(why.contains("line 1: mistake"), "{why}");
    }
    fs::write(&file, "changed again").unwrap();
    assert!(pending(&harness).await.refused.is_empty());
    fs::write(&file, "two").unwrap();
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    assert_eq!(changes, expected(&[("10-a", "relaunched: configuration changed")]));
    assert_eq!(config("c").await, "two");
    // A program that is new, too, has no configuration that it is known to accept.
    dirs.plugin("10-a", &dirs.fixture());
    fs::write(&file, "refused").unwrap();
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    let reason = &changes[0].1;
    assert!(reason.contains("line 1") && !reason.contains("previous"), "{reason}");
    assert!(harness.active_plugins().is_empty());
    harness.adaptation.shutdown().await;
}

/// It was launched again with the configuration before, and its error was shown.
#[tokio::test]
async fn a_plugin_that_was_never_active_has_no_previous_configuration() {
    let dirs = Dirs::new();
    dirs.plugin("10-a", &dirs.fixture());
    let file = dirs.config.plugin_config_path.join("a.conf");
    fs::write(&file, "refused").unwrap();
    let (harness, _) = dirs.start().await;
    fs::write(&file, "refused later").unwrap();
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    assert!(changes[0].1.contains("mistake"), "{changes:?}");
    // It was launched with the configuration as it is.
    assert_eq!(pending(&harness).await.actions, []);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_new_plugin_path_replaces_all_plugins_and_unmatched_policies_are_listed() {
    let dirs = Dirs::new();
    dirs.plugin("10-a", &dirs.fixture());
    dirs.plugin("20-b", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let other = dirs.file("other");
    fs::create_dir(&other).unwrap();
    fs::copy(dirs.config.plugin_path.join("10-a"), other.join("10-a")).unwrap();
    let mut config = dirs.config.clone();
    config.plugin_path = other;
    for name in ["10-a", "b", "11-a", "cc", "*"] {
        config.policies.push(PluginPolicy { plugin: name.into(), ..PluginPolicy::default() });
    }
    let changes = outcomes(harness.adaptation.reload(config).await);
    let elsewhere = "ended: file outside plugin_path";
    assert_eq!(
        changes,
        expected(&[("10-a", "launched"), ("10-a", elsewhere), ("20-b", elsewhere)])
    );
    assert_eq!(harness.active_plugins(), ["10-a"]);
    let mut closed = harness.log.of("closed");
    closed.sort();
    assert_eq!(closed, ["10-a", "20-b"].map(|name| format!("{name}: file outside plugin_path")));
    assert_eq!(pending(&harness).await.unmatched_policies, ["b", "11-a", "cc"]);
    let _external = harness.plugin("70-cc", &[], Quiet).await;
    assert_eq!(pending(&harness).await.unmatched_policies, ["b", "11-a"]);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn the_result_of_a_reload_has_the_last_line_that_a_plugin_wrote_before_it_ended() {
    let mut dirs = Dirs::new();
    dirs.never_restart();
    let (harness, _) = dirs.start().await;
    dirs.plugin("10-a", "echo 'cannot open /x' >&2\nexit 5");
    let changes = outcomes(harness.adaptation.reload(dirs.config.clone()).await);
    let why = "failed: ended before it registered: the program exited with code 5; last output: \
               cannot open /x";
    assert_eq!(changes, expected(&[("10-a", why)]));
    harness.adaptation.shutdown().await;
}

//! Launched plugins that are pinned by digest.

use crate::harness::*;
use crate::launch::launched::{Dirs, exists, results};
use crate::launch::reload::outcomes;
use nri_adaptation::{AdaptationConfig, PluginPolicy, PluginState, Privileges};
use nri_api::proto::StopContainerRequest;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const NONE: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn digest(file: &Path) -> String {
    format!("sha256:{:x}", Sha256::digest(fs::read(file).unwrap()))
}

/// Replaces the policies by one that pins plugins of this name.
fn pin(config: &mut AdaptationConfig, name: &str, digest: &str) {
    let digest = Some(digest.to_owned());
    let policy = PluginPolicy { plugin: name.into(), digest, ..PluginPolicy::default() };
    config.policies = vec![policy];
}

fn mismatch(file: &Path, expected: &str) -> String {
    let found = digest(file);
    format!("{} has digest {found}, and not {expected} of its policy", file.display())
}

/// A shell reads its script while it runs.
#[tokio::test]
async fn a_pinned_script_runs_as_it_was_hashed_even_if_its_file_is_written_to() {
    let mut dirs = Dirs::new();
    let (started, proceed) = (dirs.file("started"), dirs.file("proceed"));
    let wait = format!(
        "echo name $0\necho > {}\nwhile [ ! -e {} ]; do /bin/sleep 0.01; done\n",
        started.display(),
        proceed.display()
    );
    let file = dirs.plugin("10-a", &(wait + &dirs.fixture()));
    pin(&mut dirs.config, "a", &digest(&file));
    let change = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let text = fs::read_to_string(&file).unwrap();
        let line = text.rfind("exec ").unwrap();
        fs::write(&file, format!("{}exit 9 #{}", &text[..line], &text[line..])).unwrap();
        fs::write(&proceed, "").unwrap();
    };
    let ((harness, outcomes), ()) = tokio::join!(dirs.start(), change);
    assert_eq!(results(&outcomes)[0].1, "ok 10-a");
    harness.create("c").await.unwrap();
    harness.adaptation.shutdown().await;
    assert_eq!(harness.log.of("10-a printed"), ["name /proc/self/fd/4"]);
}

#[tokio::test]
async fn a_pinned_program_runs_under_its_own_name_and_with_the_user_of_its_policy() {
    let mut dirs = Dirs::new();
    let file = dirs.file("plugins/10-a");
    fs::copy("/bin/cat", &file).unwrap();
    pin(&mut dirs.config, "a", &digest(&file));
    let is_root = fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if is_root {
        // The file is unreadable, and need not be read.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        let (user, group) = (Some("65534".to_owned()), Some("65534".to_owned()));
        dirs.config.policies[0].privileges =
            Privileges { user, group, no_new_privs: true, ..Privileges::default() };
    }
    dirs.config.policies[0].restart = false;
    let (harness, outcomes) = dirs.start().await;
    let exited = "ended before it registered: the program exited with code 0";
    assert_eq!(results(&outcomes)[0].1, exited, "{:?}", harness.log.of("10-a printed"));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_file_with_another_digest_is_not_launched_and_refuses_creations_if_it_is_required() {
    let mut dirs = Dirs::new();
    let ran = dirs.file("ran");
    let file = dirs.plugin("10-a", &format!("echo > {}\n{}", ran.display(), dirs.fixture()));
    pin(&mut dirs.config, "10-a", NONE);
    dirs.config.policies[0].required = true;
    let why = mismatch(&file, NONE);
    let refused = Harness::start(dirs.config.clone()).await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains(&why), "{refused}");
    dirs.config.start_without_required = true;
    let (harness, outcomes) = dirs.start().await;
    assert_eq!(results(&outcomes)[0].1, why);
    let status = harness.adaptation.plugins().remove(0);
    assert_eq!((status.state, status.last_error), (PluginState::Closed, Some(why.clone())));
    let refused = harness.create("c").await.unwrap_err();
    assert!(refused.contains(&why), "{refused}");
    assert_eq!(harness.log.of("manager 10-a Restarting"), [""; 0]);
    harness.adaptation.shutdown().await;
    assert!(!ran.exists());
}

#[tokio::test]
async fn a_restart_verifies_the_file_again_and_gives_up() {
    let mut dirs = Dirs::new();
    let file = dirs.plugin("10-dies", &dirs.fixture());
    let pinned = digest(&file);
    pin(&mut dirs.config, "dies", &pinned);
    dirs.config.policies[0].restart_backoff = Some(Duration::from_millis(10));
    let (harness, _) = dirs.start().await;
    dirs.plugin("10-dies", &format!("{} # changed", dirs.fixture()));
    // At which the fixture exits.
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| ()).await;
    harness.log.wait_times("manager 10-dies Closed", 2).await;
    let status = harness.adaptation.plugins().remove(0);
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains(&mismatch(&file, &pinned)), "{error}");
    assert_eq!(status.state, PluginState::Closed);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_reload_keeps_what_runs_as_it_is_pinned_and_ends_what_does_not() {
    let dirs = Dirs::new();
    let file = dirs.plugin("10-a", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let mut config = dirs.config.clone();
    let mut reload = async |digest: &str| {
        pin(&mut config, "a", digest);
        let mut changes = outcomes(harness.adaptation.reload(config.clone()).await);
        (changes.remove(0).1, harness.adaptation.plugins().first().and_then(|p| p.pid))
    };
    let first = digest(&file);
    let (change, pid) = reload(&first).await;
    assert_eq!(change, "relaunched: digest changed");
    assert_eq!(reload(&first).await, ("kept".to_owned(), pid));
    // What runs is the copy of the previous file.
    dirs.plugin("10-a", &format!("{} # second", dirs.fixture()));
    let unusable = format!("unusable: {}", mismatch(&file, &first));
    assert_eq!(reload(&first).await, (unusable, pid));
    harness.create("c").await.unwrap();
    let (change, second) = reload(&digest(&file)).await;
    assert_eq!(change, "relaunched: program changed");
    assert!(second != pid && !exists(pid.unwrap()));
    let (change, none) = reload(NONE).await;
    assert_eq!(change, "ended: program has another digest than its policy");
    assert_eq!(none, None);
    assert!(!exists(second.unwrap()));
    let unusable = format!("unusable: {}", mismatch(&file, NONE));
    assert_eq!(reload(NONE).await, (unusable, None));
    assert_eq!(reload(&digest(&file)).await.0, "launched");
    assert_eq!(harness.active_plugins(), ["10-a"]);
    harness.adaptation.shutdown().await;
}

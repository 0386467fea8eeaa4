//! Standard output and error of launched plugins.

use crate::launch::launched::Dirs;
use std::time::{Duration, Instant};

#[tokio::test]
async fn lines_are_logged_under_the_plugins_name_up_to_its_exit() {
    let mut dirs = Dirs::new();
    dirs.never_restart();
    dirs.plugin("10-a", &format!("echo out\necho err >&2\nprintf unfinished\n{}", dirs.fixture()));
    dirs.plugin("20-b", "echo 'of b'; echo 'last line'; exit 1");
    let (harness, _) = dirs.start().await;
    harness.adaptation.shutdown().await;
    assert_eq!(harness.log.of("10-a printed"), ["out", "err", "unfinished"]);
    assert_eq!(harness.log.of("20-b printed"), ["of b", "last line"]);
}

#[tokio::test]
async fn a_log_that_hangs_does_not_block_plugins() {
    let dirs = Dirs::new();
    // More output than the pipe and the queue can hold.
    let many_lines = "i=0; while [ $i -lt 3000 ]; do\n\
                echo 'a line that is long enough to fill the pipe and the queue'; i=$((i+1)); done";
    dirs.plugin("10-a", &format!("echo slow\n{many_lines}\n{}", dirs.fixture()));
    let start = Instant::now();
    let (harness, _) = dirs.start().await;
    assert_eq!(harness.active_plugins(), ["10-a"]);
    harness.create("c").await.unwrap();
    harness.adaptation.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(60), "a plugin waited for the log");
    assert_eq!(harness.log.of("10-a printed"), [""; 0]);
}

/// The reply to `Configure` arrives while the lines from before it are being read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_from_before_the_reply_to_configure_are_kept_however_late_they_are_read() {
    let dirs = Dirs::new();
    for index in 10..18 {
        dirs.plugin(&format!("{index}-a"), &dirs.fixture());
    }
    std::fs::write(dirs.config.plugin_config_path.join("a.conf"), "warns").unwrap();
    let (harness, _) = dirs.start().await;
    let warnings: Vec<_> =
        harness.adaptation.plugins().into_iter().flat_map(|plugin| plugin.warnings).collect();
    assert_eq!(warnings, ["the last line"; 8]);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_child_that_keeps_the_pipe_open_does_not_block_the_shutdown() {
    let mut dirs = Dirs::new();
    dirs.never_restart();
    let child = dirs.file("child");
    dirs.plugin(
        "10-a",
        &format!("/bin/sleep 1000 3<&- &\necho $! > {}\necho exits\nexit 1", child.display()),
    );
    let start = Instant::now();
    let (harness, _) = dirs.start().await;
    harness.adaptation.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(60), "the shutdown waited for the child");
    assert_eq!(harness.log.of("10-a printed"), ["exits"]);
    let child: i32 = std::fs::read_to_string(child).unwrap().trim().parse().unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::TERM).unwrap();
}

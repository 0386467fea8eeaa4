//! The processes that a dry run leaves behind: children of plugins that left the process group of
//! their plugin. Orphans become children of this process, which kills them.

use procfs::process::{ProcState, all_processes};
use rustix::{
    io,
    process::{Pid, Signal, getpid, kill_process, set_child_subreaper},
};
use std::time::{Duration, Instant};

/// Time that killed processes have to end, which takes milliseconds unless a file system hangs.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(10);

/// Lets orphans among the descendants of this process become its children.
///
/// # Errors
/// The kernel does not support it.
pub(super) fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))
}

/// Kills all children, and those that they leave behind, and waits for their end.
pub(super) async fn kill_all() {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let children = running();
        if children.is_empty() || Instant::now() > deadline {
            return;
        }
        for child in children {
            // It may have ended.
            let _ = kill_process(child, Signal::KILL);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the children that have not ended.
fn running() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let stats = all_processes().into_iter().flatten().flatten().filter_map(|p| p.stat().ok());
    let is_running = |state| !matches!(state, Ok(ProcState::Zombie | ProcState::Dead));
    stats
        .filter(|stat| stat.ppid == own && is_running(stat.state()))
        .filter_map(|stat| Pid::from_raw(stat.pid))
        .collect()
}

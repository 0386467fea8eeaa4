//! The plugins of a run: two that are launched, others that connect and leave. Each process has a
//! journal of its own: a journal is a session.

use super::{
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Program, View};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// What views are made of. No validators among those that come and go: a creation does not go on
/// without one that it had to ask.
const LIFE: [&str; 11] = View::EVENTS;

/// Those that are launched, and launched again.
pub(super) fn install(run: &Run, go: &Program) {
    run.node.launch_in_sessions(
        "10-adjust",
        &Program::Adjust,
        "[create]\nenv = { set = { CHAOS = 'yes' } }\n[create.resources]\nshares = 300\n",
    );
    let rules = json!([
        {"event": "CreateContainer", "adjust": {"annotations": {"chaos": "yes"}}},
        {"event": "StartContainer", "sleep": 0.02}
    ]);
    run.node.launch_in_sessions("20-go", go, &json!({"events": LIFE, "rules": rules}).to_string());
}

/// A plugin that came by itself; it ends with this value.
pub(super) struct External {
    child: Child,
    pub(super) journal: PathBuf,
}

impl External {
    /// Starts one; whether it is let in is its own business.
    pub(super) fn start(run: &Run, n: usize, program: &Program, config: &str) -> Self {
        let name = format!("external{n}");
        let journal = run.node.path("journals").join(&name);
        let file = run.node.path(&format!("{name}.conf"));
        fs::write(&file, config).expect("our directory");
        let mut command = Command::new(program.path());
        let index = format!("{:02}", 30 + n % 60);
        command
            .args(["--idx", &index, "--name", &name, "--socket"])
            .arg(run.node.state_dir().join("nri.sock"));
        command.arg("--config").arg(&file).arg("--log").arg(&journal).stdin(Stdio::piped());
        let err = File::create(run.node.path("calls").join(format!("{name}.err")))
            .expect("our directory");
        command.stdout(Stdio::null()).stderr(err);
        Self { child: command.spawn().expect("a plugin that is built"), journal }
    }

    /// One of many kinds.
    pub(super) fn any(run: &Run, n: usize, go: &Program, rng: &mut Rng) -> Self {
        let event = *rng.pick(&LIFE).expect("there are some");
        let rule = match rng.within(0..10) {
            0..3 => json!({}),
            3..5 => json!({"event": event, "sleep": rng.within(1..40) as f64 / 100.0}),
            // Longer than it may take.
            5 => json!({"event": event, "sleep": 2.5, "id": format!("*{}", rng.within(0..10))}),
            6 => json!({"event": event, "exit": 3, "id": format!("*{}", rng.within(0..10))}),
            // It refuses some.
            7..9 => {
                json!({"event": event, "error": "chaos says no", "id": format!("*{}", rng.within(0..10))})
            }
            _ => {
                run.count("plugins that came");
                return Self::start(run, n, &Program::Adjust, "[update]\nshares = 700\n");
            }
        };
        run.count("plugins that came");
        let rules = if rule == json!({}) { json!([]) } else { json!([rule]) };
        Self::start(run, n, go, &json!({"events": LIFE, "rules": rules}).to_string())
    }

    /// Asks for an update of some container, out of itself.
    pub(super) fn ask(&mut self, run: &Run, rng: &mut Rng) {
        let ids: Vec<_> = lock(&run.ids).iter().cloned().collect();
        let Some(id) = rng.pick(&ids) else { return };
        let limit = (64 << 20) + rng.within(0..1000) * 4096;
        let resources = json!({"memory": {"limit": {"value": limit.to_string()}}});
        self.tell(&json!({"update": [{"containerId": id, "linux": {"resources": resources}}]}));
        run.count("updates by plugins");
    }

    pub(super) fn tell(&mut self, command: &Value) {
        // It may have ended.
        let stdin = self.child.stdin.as_mut().expect("it was piped");
        let _ = writeln!(stdin, "{command}");
    }

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

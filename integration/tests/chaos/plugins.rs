//! Plugins of a run: two plugins that `nrid` launches, and external plugins that connect and
//! disconnect. Each plugin process writes a journal of its own, so each journal covers one session.

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

/// Events that the plugins subscribe to. ValidateContainerAdjustment is not one of them, because a
/// creation fails if a validator disconnects before it has replied.
const EVENTS: [&str; 11] = View::EVENTS;

/// Installs the plugins that `nrid` launches and restarts.
pub(super) fn install(run: &Run, go_plugin: &Program) {
    run.node.launch_in_sessions(
        "10-adjust",
        &Program::Adjust,
        "[create]\nenv = { set = { CHAOS = 'yes' } }\n[create.resources]\nshares = 300\n",
    );
    let rules = json!([
        {"event": "CreateContainer", "adjust": {"annotations": {"chaos": "yes"}}},
        {"event": "StartContainer", "sleep": 0.02}
    ]);
    run.node.launch_in_sessions(
        "20-go",
        go_plugin,
        &json!({"events": EVENTS, "rules": rules}).to_string(),
    );
}

/// The process of an external plugin, which is killed when this value is dropped.
pub(super) struct External {
    child: Child,
    pub(super) journal: PathBuf,
}

impl External {
    /// Starts a plugin. Does not wait until the plugin is connected: a fault may prevent that.
    pub(super) fn start(run: &Run, n: usize, program: &Program, config: &str) -> Self {
        let name = format!("external{n}");
        let journal = run.node.path("journals").join(&name);
        let file = run.node.path(&format!("{name}.conf"));
        fs::write(&file, config).expect("the test directory is writable");
        let mut command = Command::new(program.path());
        // Two digits, and after the indices of the launched plugins.
        let index = format!("{:02}", 30 + n % 60);
        command
            .args(["--idx", &index, "--name", &name, "--socket"])
            .arg(run.node.state_dir().join("nri.sock"));
        command.arg("--config").arg(&file).arg("--log").arg(&journal).stdin(Stdio::piped());
        let err = File::create(run.node.path("calls").join(format!("{name}.err")))
            .expect("the test directory is writable");
        command.stdout(Stdio::null()).stderr(err);
        Self { child: command.spawn().expect("the plugin is built"), journal }
    }

    /// Starts a plugin with random behavior: it only subscribes to events, replies late, exceeds
    /// the request timeout, exits at an event, refuses some requests, or updates containers.
    pub(super) fn random(run: &Run, n: usize, go_plugin: &Program, rng: &mut Rng) -> Self {
        let event = *rng.pick(&EVENTS).expect("EVENTS is not empty");
        // The pattern `*N` selects the containers whose ids end with the digit N.
        let rule = match rng.within(0..10) {
            0..3 => json!({}),
            3..5 => json!({"event": event, "sleep": rng.within(1..40) as f64 / 100.0}),
            // Exceeds the request timeout.
            5 => json!({"event": event, "sleep": 2.5, "id": format!("*{}", rng.within(0..10))}),
            6 => json!({"event": event, "exit": 3, "id": format!("*{}", rng.within(0..10))}),
            // Refuses some requests.
            7..9 => {
                let id = format!("*{}", rng.within(0..10));
                json!({"event": event, "error": "refused by chaos", "id": id})
            }
            _ => {
                run.count("plugins connected");
                return Self::start(run, n, &Program::Adjust, "[update]\nshares = 700\n");
            }
        };
        run.count("plugins connected");
        let rules = if rule == json!({}) { json!([]) } else { json!([rule]) };
        Self::start(run, n, go_plugin, &json!({"events": EVENTS, "rules": rules}).to_string())
    }

    /// Makes the plugin request an update of a random container.
    pub(super) fn request_update(&mut self, run: &Run, rng: &mut Rng) {
        let ids: Vec<_> = lock(&run.ids).iter().cloned().collect();
        let Some(id) = rng.pick(&ids) else { return };
        // More memory than a container of these tests needs, in multiples of a page.
        let limit = (64 << 20) + rng.within(0..1000) * 4096;
        let resources = json!({"memory": {"limit": {"value": limit.to_string()}}});
        self.send(&json!({"update": [{"containerId": id, "linux": {"resources": resources}}]}));
        run.count("updates by plugins");
    }

    /// Writes a command to stdin of the plugin.
    pub(super) fn send(&mut self, command: &Value) {
        // The write fails if the plugin has ended.
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
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

//! The plugins that are compared: their programs, arguments and policies.

use crate::{
    machines::{RESERVED, Tree},
    runtime::RunningPlugin,
};
use std::path::{Path, PathBuf};

/// Name of our program.
pub(crate) const OURS: &str = "nri-topology";

/// A plugin with a policy.
pub(crate) struct Contender {
    /// Name of the row.
    pub(crate) label: &'static str,
    /// Name of the program.
    pub(crate) program: &'static str,
    /// Text of the policy that follows what all policies of the program have in common.
    policy: &'static str,
}

/// All plugins. The first policy of each program has its defaults.
pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { label: "topology", program: OURS, policy: "" },
    Contender {
        label: "topology, shared class within a node",
        program: OURS,
        policy: "[class.shared]\nwithin = \"node\"\n",
    },
    Contender { label: "balloons", program: "balloons", policy: "" },
    Contender {
        label: "balloons, balancing",
        program: "balloons",
        policy: "  allocatorTopologyBalancing: true\n",
    },
    Contender { label: "topology-aware", program: "topology-aware", policy: "" },
];

impl Contender {
    /// Starts the program, and waits until it receives events. `policies` is the directory of
    /// programs other than ours.
    pub(crate) async fn start(
        &self,
        tree: &Tree,
        policies: Option<&PathBuf>,
    ) -> Result<RunningPlugin, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("policy"), self.text()).unwrap();
        let program = match self.program {
            OURS => ours(),
            name => policies.unwrap().join(name),
        };
        let arguments = self.arguments(tree.root.path(), dir.path());
        RunningPlugin::start(&program, &arguments, dir).await
    }

    fn arguments(&self, root: &Path, dir: &Path) -> Vec<String> {
        let path = |name: &str| dir.join(name).display().to_string();
        let (root, socket) = (root.display(), path("nri.sock"));
        let arguments = match self.program {
            OURS => [
                format!("--devices={root}/sys/devices"),
                format!("--config={}", path("policy")),
                format!("--socket={socket}"),
                "--idx=10".to_owned(),
                "--name=topology".to_owned(),
            ],
            _ => [
                format!("-host-root={root}"),
                format!("-config-file={}", path("policy")),
                format!("-nri-socket={socket}"),
                format!("-state-dir={}", path("state")),
                format!("-pid-file={}", path("pid")),
            ],
        };
        arguments.to_vec()
    }

    /// Returns the policy. A container says how many CPUs it wants in the words of each plugin,
    /// see [`crate::runtime`].
    fn text(&self) -> String {
        let kind = match self.program {
            OURS => {
                return format!(
                    "reserved_cpus = \"{RESERVED}\"\nrequests_max = \"100%\"\nsocket = \"\"\n{}",
                    self.policy
                );
            }
            "balloons" => "BalloonsPolicy",
            _ => "TopologyAwarePolicy",
        };
        let mut text = format!(
            "apiVersion: config.nri/v1alpha1\nkind: {kind}\nmetadata:\n  name: default\nspec:\n  \
             reservedResources:\n    cpu: cpuset:{RESERVED}\n  pinCPU: true\n  pinMemory: true\n{}",
            self.policy
        );
        if self.program == "balloons" {
            text += "  balloonTypes:\n  - name: exclusive\n    preferNewBalloons: true\n";
            text += "  - name: default\n    namespaces: [\"*\"]\n    shareIdleCPUsInSame: system\n";
        }
        text
    }
}

/// Returns the path of our program, which is built beside the tests.
fn ours() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join(OURS);
    let path = program.display();
    assert!(program.exists(), "{path} is missing: build it with `cargo build --workspace --bins`");
    program
}

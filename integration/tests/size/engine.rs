//! Engine of these tests: it writes bundles, calls the wrapper, and waits for exits.

use nri_integration::{Bundle, Node, Process, wait_until};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// An engine that calls the wrapper directly, without other programs in between, so that it can run
/// many containers.
pub(super) struct Engine {
    pub(super) node: Node,
    /// `config.json` with placeholders for the id and for the arguments of the process.
    template: String,
}

impl Engine {
    pub(super) fn new(node: Node) -> Self {
        let bundle = node.bundle("TEMPLATE").arguments(&["ARGUMENTS"]).make();
        let template = String::from_utf8(bundle.bytes()).expect("config.json is UTF-8");
        fs::remove_dir_all(bundle.dir()).expect("the test directory is writable");
        Self { node, template }
    }

    fn bundle(&self, id: &str) -> PathBuf {
        Bundle::new(&self.node.path("bundles"), id).dir().to_owned()
    }

    /// Calls the wrapper, and returns what it wrote to stderr.
    ///
    /// # Panics
    /// The call fails.
    fn call(&self, id: &str, first: &[&str]) -> String {
        // The container inherits stderr, so a pipe would stay open until the container exits.
        let errors = self.node.path("calls").join(id);
        let file = fs::File::create(&errors).expect("the test directory is writable");
        let mut command: Command = self.node.wrapper();
        command.args(first).arg(id).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let status = command.status().expect("the wrapper can be called");
        let errors = fs::read_to_string(errors).expect("the file was created");
        assert!(status.success(), "{first:?} {id}: {status}: {errors}");
        errors
    }

    /// Creates and starts a container, and returns its first process.
    pub(super) fn run(&self, id: &str, arguments: &[&str]) -> Process {
        let bundle = self.bundle(id);
        fs::create_dir(&bundle).expect("the test directory is writable");
        let list: Vec<_> = arguments.iter().map(|a| format!("{a:?}")).collect();
        let config =
            self.template.replace("TEMPLATE", id).replace("\"ARGUMENTS\"", &list.join(", "));
        fs::write(bundle.join("config.json"), config).expect("the test directory is writable");
        let pid_file = bundle.join("pid");
        let path = |path: &PathBuf| path.to_str().expect("paths of tests are UTF-8").to_owned();
        let (bundle, pid_path) = (path(&bundle), path(&pid_file));
        self.call(id, &["create", "--bundle", &bundle, "--pid-file", &pid_path]);
        let pid = fs::read_to_string(pid_file).expect("the runtime writes the pid file");
        self.call(id, &["start"]);
        Process(pid.trim().parse().expect("the pid file has a pid"))
    }

    /// Kills a container.
    pub(super) fn kill(&self, id: &str) {
        self.node.bare(&["kill", id, "KILL"]).success();
    }

    /// Waits for the end of a container's first process, then deletes the container and its bundle.
    pub(super) fn delete(&self, id: &str, process: Process) {
        wait_until(format_args!("the exit of {id}"), || (!process.is_alive()).then_some(()));
        self.call(id, &["delete"]);
        fs::remove_dir_all(self.bundle(id)).expect("the test directory is writable");
        fs::remove_file(self.node.path("calls").join(id)).expect("each call writes the file");
    }

    /// Returns the number of containers that the runtime has.
    pub(super) fn containers(&self) -> usize {
        fs::read_dir(self.node.root()).map_or(0, Iterator::count)
    }
}

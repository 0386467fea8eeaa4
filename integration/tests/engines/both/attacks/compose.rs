//! Compose, which writes its own requests to Docker: services that ask for what the recipes refuse.

use super::*;

#[test]
fn services_have_no_more_rights_than_containers() {
    let as_it_is = |_: &Docker, text: String| text;
    with_compose("privileged", as_it_is, |compose, tried| {
        let engine = compose.engine;
        for more in [
            "privileged: true",
            "cap_add: [SYS_ADMIN]",
            "cap_add: [ALL]",
            "pid: host",
            "ipc: host",
            "uts: host",
            "security_opt: ['seccomp=unconfined']",
            "security_opt: ['systempaths=unconfined']",
            "device_cgroup_rules: ['b *:* rwm']",
            "devices: ['/dev/kmsg:/dev/kmsg']",
            "{network_mode: host}",
            "annotations: {io.kubernetes.cri.image-name: 'registry.example.com/node-agent'}\n    \
             cap_add: [SYS_ADMIN]",
        ] {
            tried.refused(engine, more, "50-rules", |runtime| compose.up(runtime, more, ""));
        }
        compose.up("nri", "cap_drop: [ALL]", "").success();
    });
}

#[test]
fn services_have_no_directories_of_the_host() {
    with_compose("host-mounts", with_directories, |compose, tried| {
        let engine = compose.engine;
        let volume = |options: &str| format!("volumes: {{own: {{driver_opts: {{{options}}}}}}}");
        let bind = volume("type: none, o: bind, device: /etc");
        let proc = volume("type: proc, device: proc");
        for (more, top) in [
            ("volumes: ['/etc:/x']", ""),
            ("volumes: ['/:/host:ro']", ""),
            ("volumes: [{type: bind, source: /etc, target: /x, read_only: true}]", ""),
            ("volumes: ['own:/x']", &*bind),
            ("volumes: ['own:/x']", &*proc),
            ("secrets: [own]", "secrets: {own: {file: /etc/passwd}}"),
            ("configs: [own]", "configs: {own: {file: /etc/passwd}}"),
        ] {
            let what = format!("{more} {top}");
            tried.refused(engine, &what, "50-rules", |runtime| compose.up(runtime, more, top));
            compose.down();
        }
        compose.up("nri", "volumes: ['own:/x']", "volumes: {own: {}}").success();
    });
}

#[test]
fn services_have_limits() {
    let rules = |_: &Docker, _: String| {
        "rules: [{name: a, at_most: {memory.limit: 128Mi, pids.limit: 100, \
           rlimits: {nofile: 2000}}}]"
            .to_owned()
    };
    with_compose("defaults", rules, |compose, tried| {
        let script = "ulimit -Hn; cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes \
                      memory.max pids/pids.max pids.max 2>/dev/null; true";
        for more in [
            "deploy: {resources: {limits: {memory: 8G, pids: 4000}}}",
            "deploy: {resources: {reservations: {memory: 64M}}}",
            "mem_limit: 8g\n    pids_limit: 4000",
            "pids_limit: -1",
            "ulimits: {nofile: 2500}",
        ] {
            let command = format!("{more}\n    entrypoint: [sh, -c, {script:?}]");
            let ended = compose.up("nri", &command, "").success();
            let said = said(&ended);
            // Compose 2.26 begins lines with a sequence that clears them.
            let number = |line: &str| line.trim().trim_start_matches("\u{1b}[2K").parse().ok();
            let numbers: Vec<u64> = said.lines().filter_map(number).collect();
            tried.held(more, numbers == [2000, 128 << 20, 100], &said);
        }
    });
}

/// Compose with an engine.
struct Compose<'a> {
    engine: &'a Docker,
}

/// Runs a test with the Compose of each suite and this recipe.
fn with_compose(
    recipe: &str,
    edit: impl Fn(&Docker, String) -> String,
    test: impl Fn(&Compose<'_>, &mut Tried<'_>),
) {
    with_edited_recipe::<Docker>(recipe, edit, |engine, name| {
        let name = format!("{name}, Compose");
        if engine.suite().name == "bookworm" {
            return limitation(&name, "Compose of bookworm is a program in Python");
        }
        if !engine.suite().program("docker-compose").exists() {
            return skip(&name, "no docker-compose; integration/engines/setup.sh installs it");
        }
        let compose = Compose { engine };
        let mut tried = Tried::new(&name, recipe);
        test(&compose, &mut tried);
        compose.down();
        tried.report();
    });
}

impl Compose<'_> {
    /// Creates and starts a service with this runtime and the lines `more`, and waits for its end.
    /// `top` are lines beside the services.
    fn up(&self, runtime: &str, more: &str, top: &str) -> Ended {
        // A service has one network mode.
        let (network, more) = match more.strip_prefix('{').and_then(|m| m.strip_suffix('}')) {
            Some(network) => (network, ""),
            None => ("network_mode: none", more),
        };
        let command = if more.contains("entrypoint") { "" } else { "command: 'true'" };
        let text = format!(
            "services:\n  web:\n    image: {IMAGE}\n    runtime: {runtime}\n    {network}\n    \
             {command}\n    {more}\n{top}\n"
        );
        fs::write(self.engine.path("compose.yaml"), text).unwrap();
        self.call(&["up", "--no-log-prefix", "--pull=never", "--abort-on-container-exit"])
    }

    fn down(&self) {
        self.call(&["down", "--timeout=0", "--volumes"]).success();
    }

    fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.engine.command("docker-compose");
        let dir = self.engine.dir();
        command.env("DOCKER_HOST", format!("unix://{}", dir.join("sock").display()));
        command.env("DOCKER_CONFIG", dir.join("client"));
        command.args(["--ansi=never", "--project-name=nri", "--file"]);
        command.arg(self.engine.path("compose.yaml")).args(arguments);
        self.engine.run(command)
    }
}

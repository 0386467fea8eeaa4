//! Checks that `nri.h` and the library have the same functions, constants and structure, and that C
//! programs can use them. Programs with containers are in `integration/tests/embedding`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

use nri_runtime::proto::Event;
use protobuf::Enum;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const HEADER: &str = include_str!("../include/nri.h");

/// The installed library, and a place for programs that use it.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The libraries that were built for this test are beside it. Those in the directory above
        // are of the last `cargo build`.
        let test = std::env::current_exe().unwrap();
        let build = test.parent().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        run(Command::new(script).arg(build).arg(dir.path()));
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns flags of pkg-config.
    fn flags(&self, options: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(options).arg("nri").env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        let output = String::from_utf8(run(&mut command).stdout).unwrap();
        output.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a program in C, and runs it.
    fn program(&self, text: &str, link: &[String]) -> String {
        let (source, program) = (self.path("program.c"), self.path("program"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("cc");
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11"]);
        command.args(self.flags(&["--cflags"]));
        run(command.arg(&source).arg("-o").arg(&program).args(link));
        let ran = run(Command::new(program).env("LD_LIBRARY_PATH", self.path("lib")));
        String::from_utf8(ran.stdout).unwrap()
    }
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {err}", output.status);
    output
}

/// Returns the functions that the header declares.
fn declared() -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for line in HEADER.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit(|c| !is_word(c)).next().unwrap();
        if name.starts_with("nri_") && !line.starts_with("typedef") {
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn every_exported_symbol_is_declared_and_every_declared_function_is_exported() {
    let installed = Installed::new();
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only", "--format=posix"]);
    let output = run(command.arg(installed.path("lib/libnri.so")));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let exported: BTreeSet<_> = exported.into_iter().filter(|s| !s.starts_with("rust_")).collect();
    assert_eq!(exported, declared());
    assert!(exported.contains("nri_create_container"));
}

#[test]
fn programs_in_c_link_the_library_dynamically_and_statically() {
    let installed = Installed::new();
    let text = "#include <nri.h>\n#include <stdio.h>\nint main(void) { puts(nri_version()); }\n";
    let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
    let dynamic = installed.flags(&["--libs"]);
    assert_eq!(installed.program(text, &dynamic), version);
    let mut linked = vec![installed.path("lib/libnri.a").to_string_lossy().into_owned()];
    linked.extend(installed.flags(&["--static", "--libs-only-l"]).into_iter().skip(1));
    assert_eq!(installed.program(text, &linked), version);
}

#[test]
fn events_are_numbered_as_in_the_protocol() {
    let mut found = 0;
    for line in HEADER.lines().skip_while(|line| !line.starts_with("enum nri_event_kind")) {
        let Some((name, rest)) = line.trim().strip_prefix("NRI_").and_then(|l| l.split_once(" = "))
        else {
            if line == "};" { break } else { continue }
        };
        let number: i32 = rest.split(',').next().unwrap().parse().unwrap();
        assert_eq!(Event::from_i32(number), Event::from_str(name), "{name}");
        found += 1;
    }
    // All events but creation, update and validation, which are no events for `nri_event`.
    assert_eq!(found, Event::VALUES.len() - 5);
}

/// A program without plugins: arguments that are wrong, and a life without containers.
const ARGUMENTS: &str = r#"
#include <nri.h>
#include <stdio.h>
#include <string.h>

static char *error, *text;
#define SHOW(call) do { error = NULL; int code = call; \
	printf("%d %s\n", code, error ? error : "-"); nri_free(error); } while (0)

int main(int argc, char **argv)
{
	(void)argc;
	char socket[4096];
	snprintf(socket, sizeof(socket), "%s.sock", argv[0]);
	struct nri_options options = { .size = 1 };
	nri *nri = NULL;
	SHOW(nri_start(NULL, &nri, &error));
	SHOW(nri_start(&options, &nri, &error));
	options.size = sizeof(options);
	SHOW(nri_start(&options, NULL, &error));
	SHOW(nri_start(&options, &nri, &error));
	options.runtime_name = "\xff";
	SHOW(nri_start(&options, &nri, &error));
	options.runtime_name = "test";
	options.plugin_dir = "";
	options.socket = "relative/nri.sock";
	SHOW(nri_start(&options, &nri, &error));
	options.socket = socket;
	options.state = "{\"pods\": [{\"id\": \"old\"}]}";
	SHOW(nri_start(&options, &nri, &error));
	SHOW(nri_event(NULL, NRI_RUN_POD_SANDBOX, "{}", &error));
	SHOW(nri_event(nri, 4, "{}", &error));
	SHOW(nri_event(nri, 99, "{}", &error));
	SHOW(nri_event(nri, NRI_RUN_POD_SANDBOX, "{", &error));
	SHOW(nri_event(nri, NRI_RUN_POD_SANDBOX, NULL, NULL));
	SHOW(nri_event(nri, NRI_RUN_POD_SANDBOX, "{\"id\": \"old\"}", &error));
	SHOW(nri_event(nri, NRI_STOP_POD_SANDBOX, "{\"id\": \"p\"}", &error));
	SHOW(nri_event(nri, NRI_RUN_POD_SANDBOX, "{\"id\": \"p\"}", &error));
	const char *container = "{\"id\": \"c\", \"podSandboxId\": \"p\"}";
	SHOW(nri_create_container(nri, container, "[]", &text, &error));
	SHOW(nri_create_container(nri, container, "{\"x\": 1.50}", &text, &error));
	puts(text);
	nri_free(text);
	SHOW(nri_update_container(nri, "c", "{\"pids\": {\"limit\": 7}, \"x\": 1}", &text, &error));
	puts(text);
	nri_free(text);
	SHOW(nri_event(nri, NRI_REMOVE_POD_SANDBOX, "{\"id\": \"old\"}", &error));
	SHOW(nri_state(nri, &text, &error));
	printf("%d %d\n", strstr(text, "\"old\"") != NULL, strstr(text, "\"7\"") != NULL);
	nri_free(text);
	SHOW(nri_plugins(nri, &text, &error));
	puts(text);
	nri_free(text);
	SHOW(nri_shutdown(nri));
	return nri_shutdown(NULL);
}
"#;

#[test]
fn wrong_arguments_are_errors_and_nothing_crashes() {
    let installed = Installed::new();
    let printed = installed.program(ARGUMENTS, &installed.flags(&["--libs"]));
    let size = 13 * size_of::<usize>();
    let expected = format!(
        "1 options: is NULL
1 options.size: is 1, but this libnri has {size}
1 nri: is NULL
1 options.runtime_name: is NULL
1 options.runtime_name: invalid utf-8 sequence of 1 bytes from index 0
1 socket is not an absolute path: relative/nri.sock
0 -
1 nri: is NULL
1 kind: CREATE_CONTAINER is not for nri_event
1 kind: 99 is no event
1 message: "
    );
    assert!(printed.starts_with(&expected), "{printed}");
    let rest: Vec<_> = printed.lines().skip(11).collect();
    assert_eq!(
        rest,
        [
            "1 -",
            "1 pod old exists already",
            "1 unknown pod p",
            "0 -",
            "1 config.json of container c: OCI config is an array, not an object",
            "0 -",
            "{\"x\": 1.50}",
            "0 -",
            "{\"pids\":{\"limit\":7},\"x\":1}",
            "0 -",
            "0 -",
            "0 1",
            "0 -",
            "[]",
            "0 -",
        ]
    );
}

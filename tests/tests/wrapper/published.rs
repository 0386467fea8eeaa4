//! What `nrid` publishes for calls: followed until the next reload, and only where it applies.

use crate::harness::{Server, WrapperHarness, stderr};
use nri_files::published_file;
use nri_locate::CONFIG_ENV;
use nri_tests::fake_runtime::FakeRuntime;
use rustix::process::geteuid;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// Whether settings are published here.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        println!("skipped: settings are published for root only");
    }
    is_root
}

#[test]
fn a_saved_file_has_no_effect_until_a_reload() {
    if !is_root() {
        return;
    }
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let requests = |lines: &str| {
        harness.save(lines);
        server.clear();
        for verb in ["create", "run", "restore", "start", "update", "delete"] {
            let output = harness.run(&[verb, "id"]);
            assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""), "{verb} {lines}");
        }
        let begins = server.received();
        begins.iter().filter(|(r, _)| matches!(r, nri_control::Request::Begin(_))).count()
    };
    for lines in ["", "colour = 1", "= = =", "[runtime]\npath = '/nowhere'", "disable = true"] {
        assert_eq!(requests(lines), 6, "{lines}");
    }
    harness.configure("disable = true");
    for lines in ["disable = true", "disable = true\ncolour = 1", "= = =\ndisable = true"] {
        assert_eq!(requests(lines), 0, "a reload has read the file, and calls read it since");
    }
    // No call would start an nrid that publishes it.
    assert_eq!(requests(""), 6, "NRI is enabled at once");
}

/// A harness whose configuration file names another runtime than what is published.
struct Followed {
    harness: WrapperHarness,
    by_file: FakeRuntime,
}

impl Followed {
    fn new() -> Self {
        let harness = WrapperHarness::new();
        let by_file = FakeRuntime::install(&harness.path("other"), "my-runtime").unwrap();
        let this = Self { harness, by_file };
        this.publish();
        this
    }

    fn publish(&self) {
        self.harness.configure(&format!("[runtime]\npath = {:?}\n", self.harness.fake.path));
        self.harness.save(&format!("[runtime]\npath = {:?}\n", self.by_file.path));
    }

    fn file(&self) -> PathBuf {
        published_file(&self.harness.path("config.toml"))
    }

    /// Checks which runtime is called, whether the environment or an option names the file.
    fn check(&self, is_followed: bool, why: &str, prefix: &[&str]) {
        self.check_verb(is_followed, why, prefix, &["state", "id"]);
    }

    fn check_verb(&self, is_followed: bool, why: &str, prefix: &[&str], verb: &[&str]) {
        let wrapper = self.harness.wrapper();
        let config = self.harness.text("config.toml");
        for option in [&[][..], &["--nri-config", &config]] {
            let arguments = [option, verb].concat();
            let mut words: Vec<_> = prefix.iter().map(Path::new).collect();
            words.push(&wrapper);
            let mut command = self.harness.command_of(words[0], &[]);
            let path = format!("{}:/usr/bin:/bin", self.harness.text("bin"));
            command.args(&words[1..]).args(arguments).env("PATH", path);
            self.call(command, is_followed, why);
        }
    }

    fn call(&self, mut command: Command, is_followed: bool, why: &str) {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{why}: {}", stderr(&output));
        let calls = (self.harness.fake.calls().len(), self.by_file.calls().len());
        assert_eq!(calls, if is_followed { (1, 0) } else { (0, 1) }, "{why}");
        self.harness.fake.clear();
        self.by_file.clear();
    }
}

#[test]
fn what_is_published_is_followed_only_where_it_applies() {
    if !is_root() {
        return;
    }
    let followed = Followed::new();
    let (harness, file) = (&followed.harness, followed.file());
    followed.check(true, "the usual call", &[]);
    // Another name of the same file is another configuration.
    fs::copy(harness.path("config.toml"), harness.path("copy.toml")).unwrap();
    for config in [harness.path("copy.toml"), harness.path("./config.toml")] {
        let mut command = harness.command(&["state", "id"]);
        command.env(CONFIG_ENV, &config);
        followed.call(command, false, "another path");
    }
    let mode = |bits| fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
    mode(0o666);
    followed.check(false, "a file that others can write", &[]);
    mode(0o644);
    chown(&file, Some(4711), None).unwrap();
    followed.check(false, "a file of another user", &[]);
    chown(&file, Some(0), None).unwrap();
    followed.check(true, "as at first", &[]);
    let published = fs::read(&file).unwrap();
    let edited = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut edited = published.clone();
        edit(&mut edited);
        assert_ne!(edited, published);
        edited
    };
    let config = harness.text("config.toml");
    let at = published.windows(config.len()).position(|part| part == config.as_bytes()).unwrap();
    for (other, why) in [
        (edited(&|bytes| bytes[0] += 1), "another format"),
        (edited(&|bytes| bytes[at + 1] += 1), "another configuration with the same digest"),
        (edited(&|bytes| bytes.truncate(bytes.len() - 1)), "a file that was cut off"),
        (Vec::new(), "an empty file"),
        (b"{\"format\":1,\"config\":\"/c\"}".to_vec(), "another encoding"),
    ] {
        fs::write(&file, other).unwrap();
        followed.check(false, why, &[]);
    }
    fs::rename(&file, harness.path("moved")).unwrap();
    symlink(harness.path("moved"), &file).unwrap();
    followed.check(false, "a link", &[]);
    fs::remove_file(&file).unwrap();
    followed.check(false, "nothing is published, as after a boot", &[]);
    followed.publish();
    followed.check(true, "published again", &[]);
    fs::remove_file(&harness.fake.path).unwrap();
    let output = harness.run(&["state", "id"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(followed.by_file.calls().len(), 1, "the published runtime is gone");
}

#[test]
fn what_is_published_is_not_followed_in_other_namespaces() {
    if !is_root() {
        return;
    }
    let followed = Followed::new();
    for kind in [&["--mount"][..], &["--user", "--map-root-user"]] {
        let unshare: Vec<&str> = ["/usr/bin/unshare"].iter().chain(kind).copied().collect();
        if !Command::new(unshare[0]).args(kind).arg("true").status().is_ok_and(|s| s.success()) {
            println!("skipped: no namespaces: {kind:?}");
            continue;
        }
        let why = kind.concat();
        let exec = ["exec", "--process", "/nowhere", "id"];
        followed.check_verb(false, &why, &unshare, &exec);
        // Another user namespace has another state directory, but the same programs.
        followed.check(kind[0] == "--user", &why, &unshare);
    }
    followed.check(true, "the namespaces of nrid", &[]);
}

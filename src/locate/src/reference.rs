//! The configuration reference, `docs/reference/configuration.md`.

use crate::paths::{
    BYPASS_ENV, BYPASS_FILE, CONFIG_ENV, CONFIG_FILE, DEFAULT_RUNTIMES, RUNTIME_ENV, SEARCH_PATH,
};
use nri_config::{FIELD_GROUPS, key_reference, wrapped};

/// Returns the reference: the file, its keys, environment variables, and the search for the
/// runtime.
pub fn configuration_reference() -> String {
    let head = [
        "# Configuration",
        "Every key of `config.toml`, which `nrid` and the wrapper read: values, default, effect. \
         Generated from the code by `cargo run -p nri-locate --example configuration`; a test \
         compares them.",
    ];
    let mut out = paragraphs(&head);
    out.push_str(&the_file());
    out.push_str(&key_reference());
    out.push_str(&field_groups());
    out.push_str(&variables());
    out.push_str(&runtime_search());
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn the_file() -> String {
    let text = [
        "## The file".to_owned(),
        format!(
            "The wrapper, `nrid` and `nrictl` read `{CONFIG_FILE}`, or the file that \
             `{CONFIG_ENV}` names. It is TOML. All keys are optional, and a missing file means \
             the defaults; a file that is named must exist."
        ),
        "For users (rootless engines), `$XDG_CONFIG_HOME/nri-container-runtime/config.toml` comes \
         first, with `~/.config` as the default of `$XDG_CONFIG_HOME`; the system's file counts \
         only if the user has none. See [rootless](rootless.md)."
            .to_owned(),
        "Keys may be written with dashes in place of underscores."
            .to_owned(),
        "A duration is a text in Go's notation, such as `\"500ms\"`, `\"5s\"` or `\"1m30s\"`; a \
         bare number means seconds. A size is a text with a unit, such as `\"512MiB\"` (or \
         `\"512Mi\"`) for 1024 × 1024 bytes and `\"512M\"` for 1,000,000. Fractions and a space \
         before the unit are allowed."
            .to_owned(),
        "The file must belong to root (or the user of `nrid`), as must the directories above it, \
         and no other user may be able to write to them: it names programs that run as root. The \
         same holds for plugins and their configuration."
            .to_owned(),
        "A change takes effect with `nrictl reload`, or at a start of `nrid`: calls of the wrapper \
         follow what `nrid` has loaded. They read the file by themselves where `nrid` has \
         published nothing for it: since the boot, after `nrictl stop`, while NRI is disabled, for \
         users other than root, and in other mount namespaces than that of `nrid`."
            .to_owned(),
        "If the file is invalid or not trusted, nothing changes: a reload and `nrictl start` are \
         refused, and an `nrid` that starts otherwise, after a crash or with the next container, \
         uses the last configuration that it could use since the boot; its log, `nrictl status` \
         and `nrictl doctor` say so. Calls that read the file by themselves fail at `create`, \
         `run`, `restore` and `start`, and the error names the line and column of an invalid \
         value. All other verbs proceed: with the runtime that an invalid file names if that value \
         can be read, else as without a file. NRI is disabled also by an invalid file that says \
         `disable = true`."
            .to_owned(),
        "An unknown log level, a relative path and a value with which nothing can work, such as a \
         timeout of 0, do not stop a node: `nrid` starts with the level `info`, takes the path as \
         relative to `/` and the default in place of the value, and logs an error. `nrictl \
         doctor` reports the mistake, and `nrictl reload`, a restart and `nrid --check` fail until \
         it is corrected."
            .to_owned(),
        "`nrictl reload` applies all changes except new paths of sockets: `nrid` keeps the sockets \
         that it opened when it started. `nrid --check` only checks the file."
            .to_owned(),
    ];
    paragraphs(&text)
}

fn field_groups() -> String {
    let groups: Vec<String> = FIELD_GROUPS.iter().map(|group| format!("`{group}`")).collect();
    let text = [
        "## Field groups".to_owned(),
        "Values of `allow` and `deny` of a policy. `resources` stands for all `resources.…`, \
         except that allowing `resources` does not allow `resources.devices`. `update` stands for \
         changes of containers other than the container of the event, and `runtime_annotations` \
         for annotations that change the behaviour of runtimes, such as \
         `org.systemd.property.…`. [Security](security.md#restrict-plugins) says what each group \
         can do."
            .to_owned(),
        format!("{}.", groups.join(", ")),
    ];
    paragraphs(&text)
}

fn variables() -> String {
    let mut out = paragraphs(&[
        "## Environment variables",
        "The wrapper reads them from the environment of the engine that calls it. An empty \
         variable counts as unset.",
    ]);
    for (name, text) in [
        (
            CONFIG_ENV,
            "Path of the configuration file. `nrid` and `nrictl` read it, too.".to_owned(),
        ),
        (RUNTIME_ENV, "Path or name of the real runtime.".to_owned()),
        (
            BYPASS_ENV,
            format!(
                "Break-glass: `1`, `true`, `yes` and `on` turn every verb into a plain call of the \
                 real runtime, without NRI, as does any other value except `0`, `false`, `no` and \
                 `off`, in upper or lower case. The file `{BYPASS_FILE}`, if it exists, does the \
                 same for the whole host, and `$XDG_CONFIG_HOME/nri-container-runtime/bypass` for \
                 a user."
            ),
        ),
        (
            "XDG_CONFIG_HOME",
            "Holds the configuration of users, of `nrid` and of its plugins; by default \
             `$HOME/.config`. Without both, and without `XDG_DATA_HOME`, the directories count \
             that `nrid` recorded when it started."
                .to_owned(),
        ),
        (
            "XDG_DATA_HOME",
            "Holds the plugin directory of users; by default `$HOME/.local/share`.".to_owned(),
        ),
        (
            "XDG_RUNTIME_DIR",
            "Holds the state directory of users and in user namespaces, if `state_dir` is not set."
                .to_owned(),
        ),
        ("PATH", "Searched for the real runtime and for `nrid`.".to_owned()),
    ] {
        out.push_str(&wrapped(&format!("* `{name}`: {text}"), "  "));
    }
    out.push('\n');
    out
}

fn runtime_search() -> String {
    let names: Vec<String> = DEFAULT_RUNTIMES.iter().map(|name| format!("`{name}`")).collect();
    let mut out = paragraphs(&["## How the real runtime is found", "The first of these counts:"]);
    for (number, text) in [
        "`--nri-runtime PATH` before the verb. The real runtime does not receive this flag; \
         `--nri-config PATH`, `--nri-version` and `--nri-help` are the other flags of the wrapper."
            .to_owned(),
        format!("The variable `{RUNTIME_ENV}`."),
        "The table `[runtime.names.NAME]`, if the wrapper is called as `NAME`.".to_owned(),
        "`NAME`, if the wrapper is called as `nri-NAME`.".to_owned(),
        "`path` of `[runtime]`.".to_owned(),
        format!("The first of `candidates` that exists, by default {}.", names.join(", ")),
    ]
    .iter()
    .enumerate()
    {
        out.push_str(&wrapped(&format!("{}. {text}", number + 1), "   "));
    }
    out.push('\n');
    out.push_str(&paragraphs(&[format!(
        "A bare name is searched in `PATH` (absolute entries only), then in `{SEARCH_PATH}`. The \
         wrapper itself, under any name or link, is never taken for the runtime."
    )]));
    out
}

fn paragraphs(texts: &[impl AsRef<str>]) -> String {
    texts.iter().map(|text| wrapped(text.as_ref(), "") + "\n").collect()
}

//! Keys of all sections but `[[plugin]]`.

use super::types::{
    DefaultValue::{Derived, Required, Value},
    KeyDescription,
    KeyKind::{Boolean, Choice, Duration, Integer, List, Path, Size, Text},
    SectionDescription,
};

/// Values of the keys of `[engines]`.
const NRI_CHOICES: &[(&str, &str)] = &[
    ("auto", "the engine's NRI while it is on, else `nrid`"),
    ("engine", "the engine's NRI; the wrapper passes the containers through unchanged"),
    ("ours", "`nrid`, even while the engine's NRI is on"),
];

/// Values of the key of Docker in `[engines]`.
const DOCKER_NRI_CHOICES: &[(&str, &str)] = &[
    ("auto", "`nrid`, even while Docker's NRI is on, which applies only a part of an adjustment"),
    ("engine", "Docker's NRI; the wrapper passes the containers through unchanged"),
    ("ours", "`nrid`, as with `\"auto\"`"),
];

/// Returns the description of a key of `[engines]`.
const fn engine(
    name: &'static str,
    choices: &'static [(&'static str, &'static str)],
    text: &'static str,
) -> KeyDescription {
    let default = Value("\"auto\"");
    KeyDescription { name, kind: Choice(choices), default, example: "\"ours\"", text }
}

/// Returns the description of a switch that is off by default.
const fn switch(name: &'static str, text: &'static str) -> KeyDescription {
    let default = Value("false");
    KeyDescription { name, kind: Boolean, default, example: "true", text }
}

/// Returns the description of a timeout or pause that has a default.
const fn duration(
    name: &'static str,
    default: &'static str,
    example: &'static str,
    text: &'static str,
) -> KeyDescription {
    KeyDescription { name, kind: Duration, default: Value(default), example, text }
}

/// All sections but `[[plugin]]`.
pub(super) const SECTIONS: &[SectionDescription] = &[
    SectionDescription {
        header: "",
        title: "General keys",
        text: "Keys before the first `[section]` of the file. Paths are absolute in all sections, \
               except for names of runtimes.",
        keys: &[
            switch(
                "disable",
                "The wrapper passes every verb to the real runtime, without NRI. Setting it takes \
                 effect with a reload, removing it at once.",
            ),
            KeyDescription {
                name: "mode",
                kind: Choice(&[
                    ("apply", "the changes of plugins are applied"),
                    ("shadow", "plugins are called, their changes are logged, and nothing changes"),
                ]),
                default: Value("\"apply\""),
                example: "\"shadow\"",
                text: "Whether the changes that plugins request take effect.",
            },
            KeyDescription {
                name: "unreachable",
                kind: Choice(&[
                    ("fail", "the creation or start fails"),
                    ("pass", "the container is created and started without changes by plugins"),
                ]),
                default: Value("\"fail\""),
                example: "\"pass\"",
                text: "What `create`, `run`, `restore` and `start` do when `nrid` cannot be \
                       reached or hangs. All other verbs proceed in any case.",
            },
            KeyDescription {
                name: "enforce",
                kind: Choice(&[
                    ("strict", "the creation or update fails"),
                    ("report", "the difference is logged"),
                    ("off", "cgroups are neither read nor written"),
                ]),
                default: Value("\"strict\""),
                example: "\"report\"",
                text: "What happens when the cgroup of a container does not have the resources \
                       that plugins set, and they cannot be written, or when the cgroup cannot be \
                       found.",
            },
            KeyDescription {
                name: "plugin_path",
                kind: Path,
                default: Derived(
                    "`/opt/nri/plugins` and `/etc/nri-container-runtime/plugins`; for users \
                     `$XDG_DATA_HOME/nri/plugins`.",
                ),
                example: "\"/opt/nri/plugins\"",
                text: "Directory of the plugins that `nrid` launches, the only one if it is set. \
                       By default `nrid` launches the plugins that `nrictl plugin enable` has \
                       enabled, and those of `/opt/nri/plugins`, which an engine with NRI of its \
                       own launches for its containers as well; where one does, `nrid` waits with \
                       them until it adjusts its first container.",
            },
            KeyDescription {
                name: "plugin_config_path",
                kind: Path,
                default: Derived("`/etc/nri/conf.d`; for users `$XDG_CONFIG_HOME/nri/conf.d`."),
                example: "\"/etc/nri/conf.d\"",
                text: "Directory of the configuration of launched plugins: `NN-name.conf`, else \
                       `name.conf`.",
            },
            duration(
                "plugin_registration_timeout",
                "\"5s\"",
                "\"10s\"",
                "Time in which a plugin has to register after it was launched or has connected. \
                 After a start of `nrid`, creations wait at most this long for external plugins \
                 that were connected to the previous `nrid`.",
            ),
            duration(
                "plugin_request_timeout",
                "\"2s\"",
                "\"500ms\"",
                "Time in which a plugin has to reply to a request. `on_failure` of the plugin's \
                 policy decides what happens otherwise.",
            ),
            duration(
                "plugin_synchronization_timeout",
                "\"10s\"",
                "\"1m\"",
                "Time in which a plugin that has connected has to reply to each message with the \
                 existing containers, if it is longer than the time for a request. Creations wait \
                 for the reply no longer than for one to a request, and then proceed as after a \
                 timeout: `on_failure` and `required` apply.",
            ),
            duration(
                "plugin_restart_backoff",
                "\"1s\"",
                "\"5s\"",
                "First pause before a launched plugin that exited is launched again. Each further \
                 failure doubles the pause.",
            ),
            duration(
                "plugin_restart_backoff_limit",
                "\"60s\"",
                "\"5m\"",
                "Longest pause before a launched plugin is launched again. After a plugin has run \
                 for this long, its next pause is the first one again.",
            ),
            switch(
                "disable_connections",
                "No external plugin may connect; only launched plugins are called.",
            ),
            KeyDescription {
                name: "socket_path",
                kind: Path,
                default: Derived(
                    "`/var/run/nri/nri.sock` where none of containerd, CRI-O and iSulad is \
                     installed, else none.",
                ),
                example: "\"/var/run/nri/nri.sock\"",
                text: "One more socket for external plugins, in addition to `plugins/nri.sock` in \
                       the state directory; `\"\"` means none. Only a socket without a listener \
                       is replaced, in a directory that other users cannot change.",
            },
            KeyDescription {
                name: "state_dir",
                kind: Path,
                default: Derived(
                    "`/run/nri-container-runtime` for root of the host; for users and in user \
                     namespaces `$XDG_RUNTIME_DIR/nri-container-runtime`, else a directory of the \
                     user in `/tmp`.",
                ),
                example: "\"/run/nri-container-runtime\"",
                text: "Directory of sockets, locks, records and the log.",
            },
            duration(
                "start_timeout",
                "\"20s\"",
                "\"1m\"",
                "Time that a wrapper waits for an `nrid` that it starts, and for a sign of life of \
                 a running one. `delete` and `update` wait at most 10 seconds for a sign of life; \
                 an `update` that has to start `nrid` waits as long as a creation.",
            ),
            KeyDescription {
                name: "idle_timeout",
                kind: Duration,
                default: Derived("`nrid` runs until it is stopped."),
                example: "\"10m\"",
                text: "Time after which an `nrid` without containers, pods and external plugins \
                       exits. The plugins that it launched end with it, and the next container \
                       starts it again. External plugins can only connect while `nrid` runs: for \
                       them, leave this key unset, or use the socket unit.",
            },
        ],
    },
    SectionDescription {
        header: "[runtime]",
        title: "The real runtime",
        text: "Which low-level runtime runs the containers; see [How the real runtime is \
               found](#how-the-real-runtime-is-found).",
        keys: &[
            KeyDescription {
                name: "path",
                kind: Path,
                default: Derived("the first candidate that exists."),
                example: "\"/usr/bin/crun\"",
                text: "The real runtime. A bare name is searched in `PATH` and the standard \
                       directories.",
            },
            KeyDescription {
                name: "candidates",
                kind: List("List of names or paths"),
                default: Derived("`[\"runc\", \"crun\", \"youki\"]`."),
                example: "[\"crun\", \"runc\"]",
                text: "Runtimes to try, in order: the first that exists is used. A wrapper that \
                       is installed under the name of a candidate tries that candidate first.",
            },
        ],
    },
    SectionDescription {
        header: "[runtime.names.NAME]",
        title: "Runtimes by the name of the wrapper",
        text: "Applies when the wrapper is called as `NAME`, for example by a symbolic link. \
               Without a table for it, a link `nri-crun` runs `crun`.",
        keys: &[KeyDescription {
            name: "path",
            kind: Path,
            default: Required,
            example: "\"/usr/local/bin/crun\"",
            text: "The real runtime for this name.",
        }],
    },
    SectionDescription {
        header: "[engines]",
        title: "Engines with NRI of their own",
        text: "Which NRI adjusts the containers of an engine that has NRI of its own. With \
               `\"ours\"`, switch the engine's NRI off (`nrictl install ENGINE --nri ours` \
               does), or both adjust its containers.",
        keys: &[
            engine("containerd", NRI_CHOICES, "Containers of containerd's CRI."),
            engine("crio", NRI_CHOICES, "Containers of CRI-O."),
            engine("docker", DOCKER_NRI_CHOICES, "Containers of Docker."),
            engine("isulad", NRI_CHOICES, "Containers of iSulad's CRI."),
        ],
    },
    SectionDescription {
        header: "[opt_out]",
        title: "Containers that opt out",
        text: "Containers for which no plugin is called.",
        keys: &[KeyDescription {
            name: "annotation",
            kind: Text("Name of an annotation"),
            default: Derived("no container can opt out."),
            example: "\"example.com/no-nri\"",
            text: "Containers and pods opt out by this annotation with the value `true`. Labels \
                   count if `[pods] annotations_from_labels` makes them annotations.",
        }],
    },
    SectionDescription {
        header: "[connections]",
        title: "External plugins",
        text: "Which plugins may connect by themselves, and how many.",
        keys: &[
            KeyDescription {
                name: "allow_uids",
                kind: List("List of user ids"),
                default: Value("[]"),
                example: "[1000]",
                text: "Users that may connect, besides root and the user of `nrid`.",
            },
            KeyDescription {
                name: "allow_programs",
                kind: List("List of paths"),
                default: Derived("any program."),
                example: "[\"/usr/local/bin/my-plugin\"]",
                text: "Programs that may connect.",
            },
            KeyDescription {
                name: "max_unregistered",
                kind: Integer,
                default: Value("64"),
                example: "16",
                text: "Number of connections that may wait for their registration at the same \
                       time. One process, or one container, has a quarter of them; a quarter is \
                       kept for processes of the host.",
            },
            KeyDescription {
                name: "max_plugins",
                kind: Integer,
                default: Value("256"),
                example: "32",
                text: "Number of plugins, launched ones included. A quarter is kept for \
                       plugins with a policy of their own (`[[plugin]]`, other than `*`).",
            },
        ],
    },
    SectionDescription {
        header: "[default_validator]",
        title: "Validation of adjustments",
        text: "Rules that refuse a container if plugins have adjusted what is listed here. Keys \
               and effects are those of upstream's default validator.",
        keys: &[
            switch(
                "enable",
                "Enables the section, and the annotation `required-plugins.noderesource.dev` of \
                 pods.",
            ),
            switch("reject_oci_hook_adjustment", "Refuses OCI hooks."),
            switch(
                "reject_runtime_default_seccomp_adjustment",
                "Refuses a seccomp policy in place of the runtime's default profile.",
            ),
            switch(
                "reject_unconfined_seccomp_adjustment",
                "Refuses a seccomp policy for unconfined containers.",
            ),
            switch(
                "reject_custom_seccomp_adjustment",
                "Refuses a seccomp policy in place of a profile of the container's own.",
            ),
            switch("reject_namespace_adjustment", "Refuses changes of namespaces."),
            switch("reject_sysctl_adjustment", "Refuses changes of sysctls."),
            KeyDescription {
                name: "required_plugins",
                kind: List("List of plugins, as `NN-name` or `name`"),
                default: Value("[]"),
                example: "[\"10-device-injector\"]",
                text: "Refuses containers for which one of these plugins was not called.",
            },
            KeyDescription {
                name: "tolerate_missing_plugins_annotation",
                kind: Text("Name of an annotation"),
                default: Derived("required plugins are required of every pod."),
                example: "\"example.com/tolerate-missing-plugins\"",
                text: "Annotation of a pod that allows required plugins to be missing.",
            },
        ],
    },
    SectionDescription {
        header: "[blockio]",
        title: "Block I/O classes",
        text: "Classes that plugins assign by `blockio_class`.",
        keys: &[KeyDescription {
            name: "config_file",
            kind: Path,
            default: Derived("there are no classes, and a class is refused."),
            example: "\"/etc/nri-container-runtime/blockio.yaml\"",
            text: "The classes, in the format of [goresctrl](https://github.com/intel/goresctrl), \
                   YAML or JSON. The file is read whenever a plugin assigns a class.",
        }],
    },
    SectionDescription {
        header: "[rdt]",
        title: "RDT classes",
        text: "Classes that plugins assign by `rdt_class`.",
        keys: &[KeyDescription {
            name: "config_file",
            kind: Path,
            default: Derived("the control groups in `/sys/fs/resctrl` are the classes."),
            example: "\"/etc/nri-container-runtime/rdt.yaml\"",
            text: "The classes, in the format of goresctrl, YAML or JSON. The file is read \
                   whenever a plugin assigns a class.",
        }],
    },
    SectionDescription {
        header: "[cdi]",
        title: "CDI devices",
        text: "Devices of the Container Device Interface that plugins add by name.",
        keys: &[KeyDescription {
            name: "spec_dirs",
            kind: List("List of paths"),
            default: Value("[\"/etc/cdi\", \"/var/run/cdi\"]"),
            example: "[\"/etc/cdi\"]",
            text: "Directories of specification files. Where two define the same device, the later \
                   directory takes precedence.",
        }],
    },
    SectionDescription {
        header: "[log]",
        title: "The log of nrid",
        text: "Log of `nrid` alone: the wrapper logs to stderr and to the file of the engine's \
               `--log`.",
        keys: &[
            KeyDescription {
                name: "level",
                kind: Text(
                    "`\"off\"`, `\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"` or `\"trace\"`",
                ),
                default: Value("\"info\""),
                example: "\"debug\"",
                text: "Minimum level of what is logged. A list such as `info,nri_wire=debug` sets \
                       other levels for parts of the program. Libraries log warnings and errors, \
                       unless the list names them: `debug,h2=debug`. `warning` means `warn`.",
            },
            KeyDescription {
                name: "file",
                kind: Path,
                default: Derived(
                    "`nrid.log` in the state directory; stderr where `nrid` runs in the \
                     foreground.",
                ),
                example: "\"/var/log/nrid.log\"",
                text: "The file that `nrid` appends to.",
            },
            KeyDescription {
                name: "destination",
                kind: Choice(&[
                    ("auto", "`file`; without that key, journald in a unit of systemd"),
                    ("journal", "journald; `file` while there is none, or it does not receive"),
                ]),
                default: Value("\"auto\""),
                example: "\"journal\"",
                text: "Where `nrid` logs. In journald, each field of a line is a field of the \
                       entry: `journalctl -t nrid CONTAINER=ID` or `PLUGIN=10-pin` finds lines.",
            },
        ],
    },
    SectionDescription {
        header: "[metrics]",
        title: "Metrics",
        text: "Metrics for Prometheus; [operations](operations.md#metrics) lists them. A reload \
               takes changes.",
        keys: &[KeyDescription {
            name: "listen",
            kind: Text("`\"unix:/PATH\"`, or a loopback address with a port"),
            default: Derived("no metrics are served."),
            example: "\"unix:/run/nri-container-runtime/metrics.sock\"",
            text: "Where metrics are served, by HTTP at `/metrics`. Only root and the user of \
                   `nrid` may connect to a unix socket, and every user of the host to a port. \
                   Addresses that other hosts can reach are refused.",
        }],
    },
    SectionDescription {
        header: "[audit]",
        title: "The audit log",
        text: "One JSON line for each adjustment, update, eviction and refusal, and for the life \
               of containers and plugins. `nrictl events` and `nrictl explain` read it.",
        keys: &[
            KeyDescription {
                name: "enable",
                kind: Boolean,
                default: Value("true"),
                example: "false",
                text: "Whether there is an audit log. A file that exists already stays.",
            },
            KeyDescription {
                name: "file",
                kind: Path,
                default: Derived("`audit.log` in the state directory, which a reboot empties."),
                example: "\"/var/log/nri-audit.log\"",
                text: "The file that `nrid` appends to. Not a pipe: `nrictl events` and `explain` \
                       read it.",
            },
            KeyDescription {
                name: "max_size",
                kind: Size,
                default: Value("\"8MiB\""),
                example: "\"64MiB\"",
                text: "Maximum size of the file; a bare number means bytes. A file of this size is \
                       renamed to `FILE.1`, so that both together take twice as much.",
            },
            switch(
                "environment_values",
                "Write the values of environment variables, which often are secrets. By default \
                 only their names are written, and `***` for each value.",
            ),
        ],
    },
];

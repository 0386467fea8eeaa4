//! Keys of `[[plugin]]`.

use super::types::{
    DefaultValue::{Derived, Required, Value},
    KeyDescription,
    KeyKind::{Boolean, Choice, Duration, Integer, List, Size, Table, Text},
    SectionDescription,
};

/// The policy of a plugin.
pub(super) const PLUGIN: SectionDescription = SectionDescription {
    header: "[[plugin]]",
    title: "Policies of plugins",
    text: "One table for each policy. Exactly one policy applies to a plugin: that of `NN-name`, \
           else that of `name`, else that of `*`. Two policies with the same `match` are an error.",
    keys: &[
        KeyDescription {
            name: "match",
            kind: Text("`NN-name`, `name` or `*`"),
            default: Required,
            example: "\"10-device-injector\"",
            text: "The plugins to which the policy applies: the one with this index and name, \
                   those with this name and any index, or all that no other policy matches.",
        },
        KeyDescription {
            name: "on_failure",
            kind: Choice(&[
                ("ignore", "the request proceeds without the plugin"),
                ("fail", "the request fails"),
            ]),
            default: Value("\"ignore\""),
            example: "\"fail\"",
            text: "What happens to a request to which the plugin replies too late, not at all, or \
                   with something that cannot be decoded. An error reply fails the request in \
                   any case. While the plugin is not connected, only `required` applies. A plugin \
                   can ask for `\"fail\"` itself; the stricter of both holds.",
        },
        KeyDescription {
            name: "validation_failure",
            kind: Choice(&[
                ("fail", "the container is refused"),
                ("ignore", "the container is created without the verdict of the plugin"),
            ]),
            default: Value("\"fail\""),
            example: "\"ignore\"",
            text: "What happens to a container that the plugin should validate, and for which its \
                   verdict comes too late, not at all, or cannot be decoded. `on_failure` has no \
                   effect on validation: otherwise stalling a validator would bypass it. \
                   `\"ignore\"` has no effect on a plugin that asks for failed requests itself.",
        },
        KeyDescription {
            name: "required",
            kind: Boolean,
            default: Value("false"),
            example: "true",
            text: "Refuses to create containers while the plugin is not connected.",
        },
        KeyDescription {
            name: "timeout",
            kind: Duration,
            default: Derived("`plugin_request_timeout`."),
            example: "\"5s\"",
            text: "Time in which the plugin has to reply to a request.",
        },
        KeyDescription {
            name: "consecutive_timeouts",
            kind: Integer,
            default: Derived("`1`, or `0` if the plugin asks to stay connected."),
            example: "3",
            text: "Number of timeouts in a row after which the connection to the plugin is closed; \
                   `0`: never. A value in the file holds, whatever the plugin asks for.",
        },
        KeyDescription {
            name: "restart",
            kind: Choice(&[
                ("always", "it is launched again, after a pause that grows with each failure"),
                ("never", "it is not launched again"),
            ]),
            default: Value("\"always\""),
            example: "\"never\"",
            text: "What happens to a launched plugin that exited.",
        },
        KeyDescription {
            name: "restart_backoff",
            kind: Duration,
            default: Derived("`plugin_restart_backoff`."),
            example: "\"10s\"",
            text: "First pause before the plugin is launched again.",
        },
        KeyDescription {
            name: "allow",
            kind: List("List of field groups"),
            default: Derived("everything is allowed."),
            example: "[\"devices\", \"resources.cpu\"]",
            text: "Field groups that the plugin may change. A reply that changes others is \
                   refused, and with it the container.",
        },
        KeyDescription {
            name: "deny",
            kind: List("List of field groups"),
            default: Value("[]"),
            example: "[\"hooks\", \"namespaces\"]",
            text: "Field groups that the plugin may not change, even if they are allowed.",
        },
        KeyDescription {
            name: "uids",
            kind: List("List of user ids"),
            default: Value("[]"),
            example: "[1000]",
            text: "Users that may connect as this plugin, besides root and the user of `nrid`. \
                   Ignored for `*`: a name without a policy of its own is open to every user that \
                   may connect.",
        },
        KeyDescription {
            name: "user",
            kind: Text("`name`, `uid`, `name:group` or `uid:gid`"),
            default: Derived("the user of `nrid`."),
            example: "\"nobody\"",
            text: "User, and group, that a launched plugin runs as.",
        },
        KeyDescription {
            name: "capabilities",
            kind: List("List of capabilities, such as `net_admin`"),
            default: Derived("the capabilities of `nrid` that the plugin's user may have."),
            example: "[\"net_admin\"]",
            text: "Capabilities that a launched plugin keeps; `[]` means none. New installations \
                   have a policy for `*` with `[]`.",
        },
        KeyDescription {
            name: "no_new_privs",
            kind: Boolean,
            default: Value("false"),
            example: "true",
            text: "Neither a launched plugin nor its children can gain privileges.",
        },
        KeyDescription {
            name: "rlimits",
            kind: Table(
                "Table from limits, such as `nofile`, to numbers, sizes or `\"unlimited\"`",
            ),
            default: Derived("the limits of `nrid`."),
            example: "{ nofile = 1024, memlock = \"unlimited\" }",
            text: "Resource limits of a launched plugin. Each value sets both the soft and the \
                   hard limit.",
        },
        KeyDescription {
            name: "wasm_memory",
            kind: Size,
            default: Value("\"128MiB\""),
            example: "\"64MiB\"",
            text: "Limit of the memory of a plugin that is a WebAssembly module; a bare number \
                   means MiB.",
        },
        KeyDescription {
            name: "single_instance",
            kind: Boolean,
            default: Derived(
                "`true` for plugins that assign CPUs: `topology`, `balloons`, `topology-aware`.",
            ),
            example: "true",
            text: "The plugin manages resources of the whole node. While an engine's own NRI \
                   launches it from `/opt/nri/plugins` for the engine's containers, `nrid` does \
                   not launch it for others: they are created without it, or refused if it is \
                   `required`. `nrictl install ENGINE --nri ours` ends that.",
        },
        KeyDescription {
            name: "dry_run",
            kind: Boolean,
            default: Value("false"),
            example: "true",
            text: "Allows `nrictl dry-run` to launch another instance of the plugin beside the \
                   running one, without capabilities and network and with a read-only `/sys`. Not \
                   for a plugin that needs a lock or a port, or that writes files elsewhere.",
        },
    ],
};

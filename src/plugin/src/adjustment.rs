//! Adjustment of a container that is being created: a setter for each field.

use crate::{Mistake, resources::HasResources, written::WrittenFields};
use nri_api::{opt, proto::*};

/// Names of the resource limits that Linux has, for [`Adjustment::add_rlimit`].
pub const RLIMITS: &[&str] = &[
    "RLIMIT_AS",
    "RLIMIT_CORE",
    "RLIMIT_CPU",
    "RLIMIT_DATA",
    "RLIMIT_FSIZE",
    "RLIMIT_LOCKS",
    "RLIMIT_MEMLOCK",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
    "RLIMIT_RSS",
    "RLIMIT_RTPRIO",
    "RLIMIT_RTTIME",
    "RLIMIT_SIGPENDING",
    "RLIMIT_STACK",
];

/// Adjustment of a container that is being created. The methods of
/// [`SetResources`](crate::SetResources) set its resources.
///
/// There are three ways to write a field or a key:
///
/// * `set_…` and `add_…` set it; if an earlier plugin has set it, the creation fails;
/// * `override_…` sets it, whoever has set it before. It exists where the protocol has it;
/// * `remove_…` removes it, whoever has set it before.
///
/// ```
/// let mut adjustment = nri_plugin::Adjustment::new();
/// adjustment.add_env("HELLO", "world").override_env("PATH", "/opt/bin:/bin").remove_env("DEBUG");
/// # adjustment.build().unwrap();
/// ```
///
/// Each is written once: a second time, in whatever way, is a [`Mistake`]. So is a key with a
/// leading `-`, by which the protocol marks removals. [`build`](Self::build) refuses an adjustment
/// with a mistake, and so does the SDK when a handler replies with it: the runtime receives the
/// mistake as the error of the event, and no container is created by half of a reply.
///
/// ```
/// # use nri_plugin::{Adjustment, Mistake};
/// let mut adjustment = Adjustment::new();
/// adjustment.remove_env("PATH").add_env("PATH", "/bin");
/// assert_eq!(adjustment.build(), Err(Mistake::Twice("env[PATH]".into())));
/// ```
///
/// Setters return `&mut Self` and can be chained. They do not check other values: the runtime that
/// the plugin is connected to (such as `nrid` or containerd) reports invalid values and conflicts
/// with other plugins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adjustment {
    message: ContainerAdjustment,
    written: WrittenFields,
}

impl Adjustment {
    /// Creates an adjustment without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the message of the protocol.
    ///
    /// # Errors
    /// See [`Mistake`].
    pub fn build(self) -> Result<ContainerAdjustment, Mistake> {
        self.written.check()?;
        Ok(self.message)
    }

    /// Sets an annotation.
    pub fn add_annotation(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        let key = key.into();
        self.entry(Field::Annotations, &key).annotations.insert(key, value.into());
        self
    }

    /// Sets an annotation, even if an earlier plugin set it.
    pub fn override_annotation(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        let key = key.into();
        self.remove_annotation(&key).message.annotations.insert(key, value.into());
        self
    }

    /// Removes an annotation.
    pub fn remove_annotation(&mut self, key: &str) -> &mut Self {
        self.entry(Field::Annotations, key).annotations.insert(removal(key), String::new());
        self
    }

    /// Adds a mount. It replaces the container's mount with the same destination.
    pub fn add_mount(&mut self, mount: Mount) -> &mut Self {
        let destination = mount.destination.clone();
        self.entry(Field::Mounts, &destination).mounts.push(mount);
        self
    }

    /// Adds a mount, even if an earlier plugin added one with the same destination.
    pub fn override_mount(&mut self, mount: Mount) -> &mut Self {
        self.remove_mount(&mount.destination).message.mounts.push(mount);
        self
    }

    /// Removes the mount with this destination.
    pub fn remove_mount(&mut self, destination: &str) -> &mut Self {
        let mount = Mount { destination: removal(destination), ..Default::default() };
        self.entry(Field::Mounts, destination).mounts.push(mount);
        self
    }

    /// Sets an environment variable.
    pub fn add_env(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let variable = KeyValue { key: name.into(), value: value.into(), ..Default::default() };
        self.entry(Field::Env, &variable.key.clone()).env.push(variable);
        self
    }

    /// Sets an environment variable, even if an earlier plugin set it.
    pub fn override_env(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let variable = KeyValue { key: name.into(), value: value.into(), ..Default::default() };
        self.remove_env(&variable.key).message.env.push(variable);
        self
    }

    /// Removes an environment variable.
    pub fn remove_env(&mut self, name: &str) -> &mut Self {
        let variable = KeyValue { key: removal(name), ..Default::default() };
        self.entry(Field::Env, name).env.push(variable);
        self
    }

    /// Appends OCI hooks to the hooks of the container and of other plugins. Timeouts are in
    /// seconds.
    pub fn add_hooks(&mut self, hooks: Hooks) -> &mut Self {
        let all = self.message.hooks.mut_or_insert_default();
        all.prestart.extend(hooks.prestart);
        all.create_runtime.extend(hooks.create_runtime);
        all.create_container.extend(hooks.create_container);
        all.start_container.extend(hooks.start_container);
        all.poststart.extend(hooks.poststart);
        all.poststop.extend(hooks.poststop);
        self
    }

    /// Sets a resource limit of the process, one of [`RLIMITS`], in the unit of `setrlimit(2)`.
    pub fn add_rlimit(&mut self, kind: impl Into<String>, hard: u64, soft: u64) -> &mut Self {
        let limit = POSIXRlimit { type_: kind.into(), hard, soft, ..Default::default() };
        self.entry(Field::Rlimits, &limit.type_.clone()).rlimits.push(limit);
        self
    }

    /// Adds a CDI device by its qualified name, `vendor/class=name`.
    pub fn add_cdi_device(&mut self, name: impl Into<String>) -> &mut Self {
        let device = CDIDevice { name: name.into(), ..Default::default() };
        self.entry(Field::CdiDevices, &device.name.clone()).CDI_devices.push(device);
        self
    }

    /// Sets the arguments of the process, including the program.
    pub fn set_args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.field(Field::Args).args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the arguments of the process, even if an earlier plugin set them.
    pub fn override_args<S: Into<String>>(
        &mut self,
        args: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        // An empty first argument clears those of earlier plugins.
        let args = std::iter::once(String::new()).chain(args.into_iter().map(Into::into));
        self.field(Field::Args).args = args.collect();
        self
    }

    /// Adds a device node, and a device cgroup rule that allows it.
    pub fn add_device(&mut self, device: LinuxDevice) -> &mut Self {
        let path = device.path.clone();
        self.linux_entry(Field::Devices, &path).devices.push(device);
        self
    }

    /// Adds a device node, even if an earlier plugin added one with the same path.
    pub fn override_device(&mut self, device: LinuxDevice) -> &mut Self {
        self.remove_device(&device.path).linux().devices.push(device);
        self
    }

    /// Removes the device node with this path.
    pub fn remove_device(&mut self, path: &str) -> &mut Self {
        let device = LinuxDevice { path: removal(path), ..Default::default() };
        self.linux_entry(Field::Devices, path).devices.push(device);
        self
    }

    /// Sets the path of the cgroup.
    pub fn set_cgroups_path(&mut self, path: impl Into<String>) -> &mut Self {
        self.linux_field(Field::CgroupsPath).cgroups_path = path.into();
        self
    }

    /// Sets the OOM score adjustment, -1000 (never killed) to 1000 (killed first).
    pub fn set_oom_score_adj(&mut self, score: i64) -> &mut Self {
        self.linux_field(Field::OomScoreAdj).oom_score_adj = opt(Some(score));
        self
    }

    /// Sets the I/O priority, 0 (highest) to 7.
    pub fn set_io_priority(&mut self, class: IOPrioClass, priority: i32) -> &mut Self {
        let io = LinuxIOPriority { class: class.into(), priority, ..Default::default() };
        self.linux_field(Field::IoPriority).io_priority = Some(io).into();
        self
    }

    /// Replaces the seccomp policy.
    pub fn set_seccomp_policy(&mut self, policy: LinuxSeccomp) -> &mut Self {
        self.linux_field(Field::SeccompPolicy).seccomp_policy = Some(policy).into();
        self
    }

    /// Sets a namespace, such as `network`, to the namespace at `path`, or to a new namespace if
    /// `path` is empty.
    pub fn add_namespace(&mut self, kind: impl Into<String>, path: impl Into<String>) -> &mut Self {
        let namespace =
            LinuxNamespace { type_: kind.into(), path: path.into(), ..Default::default() };
        self.linux_entry(Field::Namespace, &namespace.type_.clone()).namespaces.push(namespace);
        self
    }

    /// Removes a namespace, such as `network`: the container uses the namespace of the low-level
    /// runtime. Unlike other removals, it conflicts with an earlier plugin that set the namespace.
    pub fn remove_namespace(&mut self, kind: &str) -> &mut Self {
        let namespace = LinuxNamespace { type_: removal(kind), ..Default::default() };
        self.linux_entry(Field::Namespace, kind).namespaces.push(namespace);
        self
    }

    /// Sets a sysctl.
    pub fn set_sysctl(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let key = key.into();
        self.linux_entry(Field::Sysctl, &key).sysctl.insert(key, value.into());
        self
    }

    /// Sets a sysctl, even if an earlier plugin set it.
    pub fn override_sysctl(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        let key = key.into();
        self.remove_sysctl(&key).linux().sysctl.insert(key, value.into());
        self
    }

    /// Removes a sysctl.
    pub fn remove_sysctl(&mut self, key: &str) -> &mut Self {
        self.linux_entry(Field::Sysctl, key).sysctl.insert(removal(key), String::new());
        self
    }

    /// Moves a network device of the host into the container; an empty `name` keeps the
    /// device's name.
    pub fn add_net_device(
        &mut self,
        host_name: impl Into<String>,
        name: impl Into<String>,
    ) -> &mut Self {
        let (host, device) = net_device(host_name, name);
        self.linux_entry(Field::LinuxNetDevices, &host).net_devices.insert(host, device);
        self
    }

    /// Moves a network device of the host into the container, even if an earlier plugin did.
    pub fn override_net_device(
        &mut self,
        host_name: impl Into<String>,
        name: impl Into<String>,
    ) -> &mut Self {
        let (host, device) = net_device(host_name, name);
        self.remove_net_device(&host).linux().net_devices.insert(host, device);
        self
    }

    /// Removes a network device from the container; the device stays on the host.
    pub fn remove_net_device(&mut self, host_name: &str) -> &mut Self {
        let (key, device) = net_device(removal(host_name), "");
        self.linux_entry(Field::LinuxNetDevices, host_name).net_devices.insert(key, device);
        self
    }

    /// Sets the scheduling policy. Runtime, deadline and period are in nanoseconds.
    pub fn set_scheduler(&mut self, scheduler: LinuxScheduler) -> &mut Self {
        self.linux_field(Field::LinuxSched).scheduler = Some(scheduler).into();
        self
    }

    /// Sets the resctrl group by its name (closid).
    pub fn set_rdt_clos_id(&mut self, clos_id: impl Into<String>) -> &mut Self {
        self.rdt(Field::RdtClosID).clos_id = opt(Some(clos_id.into()));
        self
    }

    /// Sets the schemata of the resctrl group, line by line, such as `L3:0=ff`.
    pub fn set_rdt_schemata<S: Into<String>>(
        &mut self,
        lines: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        self.rdt(Field::RdtSchemata).schemata =
            opt(Some(lines.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets whether the container gets a monitoring group.
    pub fn set_rdt_enable_monitoring(&mut self, enable: bool) -> &mut Self {
        self.rdt(Field::RdtEnableMonitoring).enable_monitoring = opt(Some(enable));
        self
    }

    /// Removes closid, schemata, monitoring and the RDT class.
    pub fn remove_rdt(&mut self) -> &mut Self {
        for field in [Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring] {
            self.rdt(field).remove = true;
        }
        self
    }

    /// Clears closid, schemata, monitoring and the RDT class, so that the `set_rdt_…` methods set
    /// them even if an earlier plugin did. What they do not set is removed.
    pub fn override_rdt(&mut self) -> &mut Self {
        self.linux().rdt.mut_or_insert_default().remove = true;
        self
    }

    /// Sets the memory policy (`set_mempolicy(2)`); `nodes` is a list such as `0-1`.
    pub fn set_memory_policy(
        &mut self,
        mode: MpolMode,
        nodes: impl Into<String>,
        flags: impl IntoIterator<Item = MpolFlag>,
    ) -> &mut Self {
        let flags = flags.into_iter().map(Into::into).collect();
        let policy = LinuxMemoryPolicy {
            mode: mode.into(),
            nodes: nodes.into(),
            flags,
            ..Default::default()
        };
        self.linux_field(Field::MemoryPolicy).memory_policy = Some(policy).into();
        self
    }

    /// Returns the message, to write a field once.
    fn field(&mut self, field: Field) -> &mut ContainerAdjustment {
        self.written.field(field);
        &mut self.message
    }

    /// Returns the message, to write an entry of a field once.
    fn entry(&mut self, field: Field, key: &str) -> &mut ContainerAdjustment {
        self.written.entry(field, key);
        &mut self.message
    }

    fn linux(&mut self) -> &mut LinuxContainerAdjustment {
        self.message.linux.mut_or_insert_default()
    }

    fn linux_field(&mut self, field: Field) -> &mut LinuxContainerAdjustment {
        self.field(field).linux.mut_or_insert_default()
    }

    fn linux_entry(&mut self, field: Field, key: &str) -> &mut LinuxContainerAdjustment {
        self.entry(field, key).linux.mut_or_insert_default()
    }

    fn rdt(&mut self, field: Field) -> &mut LinuxRdt {
        self.linux_field(field).rdt.mut_or_insert_default()
    }
}

impl HasResources for Adjustment {
    fn parts(&mut self) -> (&mut LinuxResources, &mut WrittenFields) {
        let linux = self.message.linux.mut_or_insert_default();
        (linux.resources.mut_or_insert_default(), &mut self.written)
    }
}

/// An adjustment that was built by other means is sent as it is; only what is written afterwards is
/// checked.
impl From<ContainerAdjustment> for Adjustment {
    fn from(message: ContainerAdjustment) -> Self {
        Self { message, written: WrittenFields::default() }
    }
}

/// Returns the key that requests the removal of `key`.
fn removal(key: &str) -> String {
    format!("-{key}")
}

/// Returns an entry of the network devices.
fn net_device(host_name: impl Into<String>, name: impl Into<String>) -> (String, LinuxNetDevice) {
    (host_name.into(), LinuxNetDevice { name: name.into(), ..Default::default() })
}

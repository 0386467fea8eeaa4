//! Adjustment of a container that is being created: a setter for each field.

use crate::SetResources;
use nri_api::{opt, proto::*};

/// Adjustment of a container that is being created. The methods of [`SetResources`] set its
/// resources.
///
/// Setters return `&mut Self` and can be chained. They do not check values: the NRI runtime that
/// the plugin is connected to (such as `nrid` or containerd) reports invalid values and conflicts
/// with other plugins. To override the value of an earlier plugin, remove it and set it again in
/// the same adjustment:
///
/// ```
/// let mut adjustment = nri_plugin::Adjustment::new();
/// adjustment.remove_env("PATH").add_env("PATH", "/opt/bin:/bin");
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adjustment(ContainerAdjustment);

impl Adjustment {
    /// Creates an adjustment without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an annotation.
    pub fn add_annotation(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        self.0.annotations.insert(key.into(), value.into());
        self
    }

    /// Removes an annotation.
    pub fn remove_annotation(&mut self, key: &str) -> &mut Self {
        self.0.annotations.insert(removal(key), String::new());
        self
    }

    /// Adds a mount. It replaces the container's mount with the same destination.
    pub fn add_mount(&mut self, mount: Mount) -> &mut Self {
        self.0.mounts.push(mount);
        self
    }

    /// Removes the mount with this destination.
    pub fn remove_mount(&mut self, destination: &str) -> &mut Self {
        self.0.mounts.push(Mount { destination: removal(destination), ..Default::default() });
        self
    }

    /// Sets an environment variable.
    pub fn add_env(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.0.env.push(KeyValue { key: name.into(), value: value.into(), ..Default::default() });
        self
    }

    /// Removes an environment variable.
    pub fn remove_env(&mut self, name: &str) -> &mut Self {
        self.0.env.push(KeyValue { key: removal(name), ..Default::default() });
        self
    }

    /// Appends OCI hooks to the hooks of the container and of other plugins.
    pub fn add_hooks(&mut self, hooks: Hooks) -> &mut Self {
        let all = self.0.hooks.mut_or_insert_default();
        all.prestart.extend(hooks.prestart);
        all.create_runtime.extend(hooks.create_runtime);
        all.create_container.extend(hooks.create_container);
        all.start_container.extend(hooks.start_container);
        all.poststart.extend(hooks.poststart);
        all.poststop.extend(hooks.poststop);
        self
    }

    /// Sets a resource limit of the process, such as `RLIMIT_NOFILE`.
    pub fn add_rlimit(&mut self, kind: impl Into<String>, hard: u64, soft: u64) -> &mut Self {
        self.0.rlimits.push(POSIXRlimit { type_: kind.into(), hard, soft, ..Default::default() });
        self
    }

    /// Adds a CDI device by its qualified name, `vendor/class=name`.
    pub fn add_cdi_device(&mut self, name: impl Into<String>) -> &mut Self {
        self.0.CDI_devices.push(CDIDevice { name: name.into(), ..Default::default() });
        self
    }

    /// Sets the arguments of the process, including the program.
    pub fn set_args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.0.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the arguments of the process, even if an earlier plugin set them.
    pub fn replace_args<S: Into<String>>(
        &mut self,
        args: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        self.0.args =
            std::iter::once(String::new()).chain(args.into_iter().map(Into::into)).collect();
        self
    }

    /// Adds a device node, and a device cgroup rule that allows it.
    pub fn add_device(&mut self, device: LinuxDevice) -> &mut Self {
        self.linux().devices.push(device);
        self
    }

    /// Removes the device node with this path.
    pub fn remove_device(&mut self, path: &str) -> &mut Self {
        self.linux().devices.push(LinuxDevice { path: removal(path), ..Default::default() });
        self
    }

    /// Sets the path of the cgroup.
    pub fn set_cgroups_path(&mut self, path: impl Into<String>) -> &mut Self {
        self.linux().cgroups_path = path.into();
        self
    }

    /// Sets the OOM score adjustment, -1000 (never killed) to 1000 (killed first).
    pub fn set_oom_score_adj(&mut self, score: i64) -> &mut Self {
        self.linux().oom_score_adj = opt(Some(score));
        self
    }

    /// Sets the I/O priority, 0 (highest) to 7.
    pub fn set_io_priority(&mut self, class: IOPrioClass, priority: i32) -> &mut Self {
        let io = LinuxIOPriority { class: class.into(), priority, ..Default::default() };
        self.linux().io_priority = Some(io).into();
        self
    }

    /// Replaces the seccomp policy.
    pub fn set_seccomp_policy(&mut self, policy: LinuxSeccomp) -> &mut Self {
        self.linux().seccomp_policy = Some(policy).into();
        self
    }

    /// Sets a namespace, such as `network`, to the namespace at `path`, or to a new namespace if
    /// `path` is empty.
    pub fn add_namespace(&mut self, kind: impl Into<String>, path: impl Into<String>) -> &mut Self {
        let namespace =
            LinuxNamespace { type_: kind.into(), path: path.into(), ..Default::default() };
        self.linux().namespaces.push(namespace);
        self
    }

    /// Removes a namespace, such as `network`: the container uses the namespace of the low-level
    /// runtime.
    pub fn remove_namespace(&mut self, kind: &str) -> &mut Self {
        self.add_namespace(removal(kind), "")
    }

    /// Sets a sysctl.
    pub fn set_sysctl(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.linux().sysctl.insert(key.into(), value.into());
        self
    }

    /// Removes a sysctl.
    pub fn remove_sysctl(&mut self, key: &str) -> &mut Self {
        self.set_sysctl(removal(key), "")
    }

    /// Moves a network device of the host into the container; an empty `name` keeps the
    /// device's name.
    pub fn add_net_device(
        &mut self,
        host_name: impl Into<String>,
        name: impl Into<String>,
    ) -> &mut Self {
        let device = LinuxNetDevice { name: name.into(), ..Default::default() };
        self.linux().net_devices.insert(host_name.into(), device);
        self
    }

    /// Removes a network device from the container; the device stays on the host.
    pub fn remove_net_device(&mut self, host_name: &str) -> &mut Self {
        self.add_net_device(removal(host_name), "")
    }

    /// Sets the scheduling policy.
    pub fn set_scheduler(&mut self, scheduler: LinuxScheduler) -> &mut Self {
        self.linux().scheduler = Some(scheduler).into();
        self
    }

    /// Sets the resctrl group by its name (closid).
    pub fn set_rdt_clos_id(&mut self, clos_id: impl Into<String>) -> &mut Self {
        self.rdt().clos_id = opt(Some(clos_id.into()));
        self
    }

    /// Sets the schemata of the resctrl group, line by line, such as `L3:0=ff`.
    pub fn set_rdt_schemata<S: Into<String>>(
        &mut self,
        lines: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        self.rdt().schemata = opt(Some(lines.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets whether the container gets a monitoring group.
    pub fn set_rdt_enable_monitoring(&mut self, enable: bool) -> &mut Self {
        self.rdt().enable_monitoring = opt(Some(enable));
        self
    }

    /// Clears closid, schemata, monitoring and the RDT class.
    pub fn remove_rdt(&mut self) -> &mut Self {
        self.rdt().remove = true;
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
        self.linux().memory_policy = Some(policy).into();
        self
    }

    fn linux(&mut self) -> &mut LinuxContainerAdjustment {
        self.0.linux.mut_or_insert_default()
    }

    fn rdt(&mut self) -> &mut LinuxRdt {
        self.linux().rdt.mut_or_insert_default()
    }
}

impl SetResources for Adjustment {
    fn resources(&mut self) -> &mut LinuxResources {
        self.linux().resources.mut_or_insert_default()
    }
}

impl From<Adjustment> for ContainerAdjustment {
    fn from(adjustment: Adjustment) -> Self {
        adjustment.0
    }
}

impl From<ContainerAdjustment> for Adjustment {
    fn from(message: ContainerAdjustment) -> Self {
        Self(message)
    }
}

/// Returns the key that requests the removal of `key`.
fn removal(key: &str) -> String {
    format!("-{key}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Update;
    use protobuf::{
        Message, MessageDyn,
        reflect::{ReflectFieldRef, RuntimeFieldType, RuntimeType},
    };

    /// Messages that a plugin passes to a setter as a whole; their fields have no setters.
    const WITHOUT_SETTERS: [&str; 9] = [
        "Mount",
        "KeyValue",
        "Hooks",
        "LinuxDevice",
        "LinuxSeccomp",
        "LinuxScheduler",
        "LinuxDeviceCgroup",
        "LinuxNetDevice",
        "LinuxMemoryPolicy",
    ];

    /// Collects the paths of the fields that are not set.
    fn unset(message: &dyn MessageDyn, path: &str, out: &mut Vec<String>) {
        let descriptor = message.descriptor_dyn();
        for field in descriptor.fields() {
            let path = format!("{path}/{}", field.name());
            let inner = match field.runtime_field_type() {
                RuntimeFieldType::Singular(RuntimeType::Message(m))
                    if !WITHOUT_SETTERS.contains(&m.name()) =>
                {
                    field.get_message(message)
                }
                _ => {
                    let set = match field.get_reflect(message) {
                        ReflectFieldRef::Optional(_) => field.has_field(message),
                        ReflectFieldRef::Repeated(list) => !list.is_empty(),
                        ReflectFieldRef::Map(map) => !map.is_empty(),
                    };
                    if !set {
                        out.push(path);
                    }
                    continue;
                }
            };
            if !field.has_field(message) {
                out.push(path);
            } else if !inner.descriptor_dyn().name().starts_with("Optional") {
                unset(&*inner, &path, out);
            }
        }
    }

    fn set_all_resources(r: &mut impl SetResources) {
        r.set_memory_limit(1)
            .set_memory_reservation(2)
            .set_memory_swap(3)
            .set_memory_kernel(4)
            .set_memory_kernel_tcp(5)
            .set_memory_swappiness(6)
            .set_memory_disable_oom_killer(true)
            .set_memory_use_hierarchy(true)
            .set_cpu_shares(7)
            .set_cpu_quota(8)
            .set_cpu_period(9)
            .set_cpu_realtime_runtime(10)
            .set_cpu_realtime_period(11)
            .set_cpu_cpus("0")
            .set_cpu_mems("1")
            .add_hugepage_limit("2MB", 12)
            .set_blockio_class("b")
            .set_rdt_class("r")
            .add_unified("memory.high", "13")
            .add_device_rule(LinuxDeviceCgroup::new())
            .set_pids_limit(14);
    }

    fn everything() -> Adjustment {
        let mut a = Adjustment::new();
        a.add_annotation("a", "b")
            .remove_annotation("c")
            .add_mount(Mount::new())
            .remove_mount("/m")
            .add_env("A", "b")
            .remove_env("C")
            .add_hooks(Hooks { poststop: vec![Hook::new()], ..Default::default() })
            .add_rlimit("RLIMIT_CORE", 2, 1)
            .add_cdi_device("v/c=n")
            .set_args(["x"])
            .add_device(LinuxDevice::new())
            .remove_device("/dev/x")
            .set_cgroups_path("/c")
            .set_oom_score_adj(1)
            .set_io_priority(IOPrioClass::IOPRIO_CLASS_BE, 2)
            .set_seccomp_policy(LinuxSeccomp::new())
            .add_namespace("network", "/n")
            .remove_namespace("pid")
            .set_sysctl("s", "1")
            .remove_sysctl("t")
            .add_net_device("eth0", "e")
            .remove_net_device("eth1")
            .set_scheduler(LinuxScheduler::new())
            .set_rdt_clos_id("c")
            .set_rdt_schemata(["L3:0=f"])
            .set_rdt_enable_monitoring(true)
            .remove_rdt()
            .set_memory_policy(MpolMode::MPOL_BIND, "0", [MpolFlag::MPOL_F_STATIC_NODES]);
        set_all_resources(&mut a);
        a
    }

    #[test]
    fn every_field_of_the_protocol_has_a_setter() {
        let check = |message: &dyn MessageDyn, expect: &[&str]| {
            let mut missing = Vec::new();
            unset(message, "", &mut missing);
            missing.sort();
            assert_eq!(missing, expect);
        };
        check(&ContainerAdjustment::from(everything()), &[]);
        let mut update = Update::new("id");
        set_all_resources(update.set_ignore_failure(true));
        check(&ContainerUpdate::from(update), &[]);
        // The check itself must find fields that are not set.
        let mut incomplete = everything();
        (incomplete.0.args, incomplete.rdt().remove) = (Vec::new(), false);
        incomplete.resources().cpu.mut_or_insert_default().quota = None.into();
        check(&incomplete.0, &["/args", "/linux/rdt/remove", "/linux/resources/cpu/quota"]);
    }

    #[test]
    fn removals_have_a_leading_minus() {
        let a = ContainerAdjustment::from(everything());
        assert_eq!(a.env[1].key, "-C");
        assert_eq!(a.mounts[1].destination, "-/m");
        assert_eq!(a.linux.devices[1].path, "-/dev/x");
        assert_eq!(a.linux.namespaces[1].type_, "-pid");
        assert!(a.annotations.contains_key("-c") && a.linux.sysctl.contains_key("-t"));
        assert!(a.linux.net_devices.contains_key("-eth1"));
        // An empty first argument replaces the arguments that an earlier plugin set.
        let mut args = Adjustment::new();
        args.replace_args(["sh"]);
        assert_eq!(args.0.args, ["", "sh"]);
        assert_eq!(Adjustment::new().0.compute_size(), 0, "a new adjustment changes something");
    }
}

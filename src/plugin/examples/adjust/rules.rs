//! Adjustments and updates that follow the rules of the TOML file.

use super::config::{Create, HookRule, Keyed, Resources, Stage};
use nri_plugin::{Adjustment, SetResources, opt, proto::*};

impl Create {
    /// Returns the adjustment of a container.
    pub(crate) fn adjustment(&self) -> Adjustment {
        let mut a = Adjustment::new();
        if self.replace_args && !self.args.is_empty() {
            a.override_args(&self.args);
        } else if !self.args.is_empty() {
            a.set_args(&self.args);
        }
        if let Some(score) = self.oom_score_adj {
            a.set_oom_score_adj(score);
        }
        for name in &self.cdi_devices {
            a.add_cdi_device(name);
        }
        // What a rule removes and sets is overridden: it is set, even if an earlier plugin owns it.
        for key in self.env.only_removed() {
            a.remove_env(key);
        }
        for (key, value) in &self.env.set {
            if self.env.removes(key) {
                a.override_env(key, value)
            } else {
                a.add_env(key, value)
            };
        }
        for key in self.annotations.only_removed() {
            a.remove_annotation(key);
        }
        for (key, value) in &self.annotations.set {
            if self.annotations.removes(key) {
                a.override_annotation(key, value)
            } else {
                a.add_annotation(key, value)
            };
        }
        for key in self.sysctl.only_removed() {
            a.remove_sysctl(key);
        }
        for (key, value) in &self.sysctl.set {
            if self.sysctl.removes(key) {
                a.override_sysctl(key, value)
            } else {
                a.set_sysctl(key, value)
            };
        }
        let is_added = |path: &str| self.mounts.iter().any(|m| m.destination == path);
        for destination in self.remove_mounts.iter().filter(|path| !is_added(path)) {
            a.remove_mount(destination);
        }
        for m in &self.mounts {
            let mount = Mount {
                destination: m.destination.clone(),
                source: m.source.clone(),
                type_: m.r#type.clone(),
                options: m.options.clone(),
                ..Default::default()
            };
            if self.remove_mounts.contains(&m.destination) {
                a.override_mount(mount)
            } else {
                a.add_mount(mount)
            };
        }
        let is_added = |path: &str| self.devices.iter().any(|d| d.path == path);
        for path in self.remove_devices.iter().filter(|path| !is_added(path)) {
            a.remove_device(path);
        }
        for d in &self.devices {
            let device = LinuxDevice {
                path: d.path.clone(),
                type_: d.r#type.clone(),
                major: d.major,
                minor: d.minor,
                file_mode: opt(d.mode),
                uid: opt(d.uid),
                gid: opt(d.gid),
                ..Default::default()
            };
            if self.remove_devices.contains(&d.path) {
                a.override_device(device)
            } else {
                a.add_device(device)
            };
        }
        for r in &self.rlimits {
            a.add_rlimit(&r.r#type, r.hard, r.soft);
        }
        for h in &self.hooks {
            a.add_hooks(h.hooks());
        }
        if let Some(resources) = &self.resources {
            resources.apply(&mut a);
        }
        a
    }
}

impl Keyed {
    fn removes(&self, key: &str) -> bool {
        self.remove.iter().any(|removed| removed == key)
    }

    /// Returns the keys to remove that are not set.
    fn only_removed(&self) -> impl Iterator<Item = &String> {
        self.remove.iter().filter(|key| !self.set.contains_key(*key))
    }
}

impl HookRule {
    fn hooks(&self) -> Hooks {
        let hook = Hook {
            path: self.path.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
            timeout: opt(self.timeout),
            ..Default::default()
        };
        let mut hooks = Hooks::new();
        match self.stage {
            Stage::Prestart => hooks.prestart.push(hook),
            Stage::CreateRuntime => hooks.create_runtime.push(hook),
            Stage::CreateContainer => hooks.create_container.push(hook),
            Stage::StartContainer => hooks.start_container.push(hook),
            Stage::Poststart => hooks.poststart.push(hook),
            Stage::Poststop => hooks.poststop.push(hook),
        }
        hooks
    }
}

impl Resources {
    /// Sets the resources for which there is a rule.
    pub(crate) fn apply(&self, to: &mut impl SetResources) {
        macro_rules! set {
            ($($field:ident: $setter:ident),*) => {$(
                if let Some(value) = self.$field.clone() {
                    to.$setter(value);
                }
            )*};
        }
        set!(cpus: set_cpu_cpus, mems: set_cpu_mems, shares: set_cpu_shares);
        set!(quota: set_cpu_quota, period: set_cpu_period, pids: set_pids_limit);
        set!(memory: set_memory_limit, reservation: set_memory_reservation, swap: set_memory_swap);
        set!(blockio_class: set_blockio_class, rdt_class: set_rdt_class);
        for (size, limit) in &self.hugepages {
            to.add_hugepage_limit(size, *limit);
        }
        for (file, value) in &self.unified {
            to.add_unified(file, value);
        }
    }
}

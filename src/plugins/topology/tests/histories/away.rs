//! Updates by engines while the plugin is not connected: they set CPUs that are not theirs to give.

use crate::world::World;
use nri_topology::{hardware::cpuset::CpuSet, placed::Kind};

impl World {
    /// Sets CPUs of a container, and starts the plugin. No other container loses exclusive CPUs,
    /// and no account gets more than its quota.
    pub(crate) fn update_away(&mut self, which: u32, size: u32) -> Result<(), String> {
        let Some((id, changed)) = self.change(which, size) else { return Ok(()) };
        self.counts.away += 1;
        let before = self.allocator.clone();
        let (is_sure, has_displaced) = (!self.is_unsure, self.has_displaced());
        let cpus = self.machine.cpus.iter().skip(size as usize % self.machine.cpus.len());
        let cpus: CpuSet = cpus.take(1 + which as usize % 8).collect();
        if let Some(container) = self.containers.get_mut(&id) {
            (container.subject, container.has.cpus, container.is_own) = (changed, cpus, false);
        }
        self.is_disturbed = true;
        self.start_plugin()?;
        if !is_sure {
            return Ok(());
        }
        for (account, taken) in self.allocator.taken() {
            let had = before.taken().get(&account).map_or(0, |taken| taken.cpus.len());
            let allowed = self.allocator.allowed(&account);
            let is_over = allowed.is_some_and(|most| taken.cpus.len() > most.max(had));
            if is_over && !has_displaced {
                return Err(format!("{account:?} got more than {allowed:?}: {taken:?}"));
            }
        }
        // Without the runtime's word, whoever is older and has what it asks for is believed.
        let others = before.containers().iter().filter(|(other, placed)| {
            self.is_known && **other != id && placed.kind == Kind::Exclusive
        });
        for (other, placed) in others {
            let now = &self.allocator.containers()[other];
            if (now.kind, &now.cpus, &now.owned) != (placed.kind, &placed.cpus, &placed.owned) {
                return Err(format!("{other} lost CPUs to {id}: {placed:?} became {now:?}"));
            }
        }
        Ok(())
    }

    /// Whether a container had to give up exclusive CPUs since its creation: it may get some again
    /// at the next start.
    pub(crate) fn has_displaced(&self) -> bool {
        self.allocator.containers().iter().any(|(id, placed)| {
            let assigned = self.containers.get(id).and_then(|found| found.assigned.as_ref());
            placed.kind != Kind::Exclusive && assigned.is_some_and(|a| a.kind == Kind::Exclusive)
        })
    }
}

//! Better placement of containers that exist, when others have come or gone: exclusive CPUs that
//! are nearer to each other, and shared containers that move to groups with less load.

use crate::{
    allocator::Allocator,
    placed::{Kind, Placed},
    placement::Span,
    shared::{Load, load_of},
};

impl Allocator {
    /// Moves one container if that improves its placement. Returns whether one was moved.
    pub(crate) fn improve(&mut self) -> bool {
        self.improve_exclusive() || self.improve_shared()
    }

    /// Moves the first container whose exclusive CPUs could span fewer packages, memory nodes or
    /// caches.
    fn improve_exclusive(&mut self) -> bool {
        let is_movable = |placed: &Placed| placed.kind == Kind::Exclusive && placed.kept.is_empty();
        let exclusive = self.containers.iter().filter(|(_, placed)| is_movable(placed));
        let better = exclusive.into_iter().find_map(|(id, placed)| {
            let span = Span::of(&self.machine, &placed.cpus);
            if span.packages <= 1 && span.nodes <= 1 && span.caches <= 1 {
                return None;
            }
            let mut without = self.clone();
            without.containers.remove(id);
            let choice = without.choose_exclusive(&placed.request).ok()?;
            // Its present CPUs are free only after it has got others.
            let is_closer = Span::of(&self.machine, &choice.cpus).is_closer(&span)
                && self.leaves_enough(&choice.owned);
            is_closer.then(|| (id.clone(), choice))
        });
        let Some((id, choice)) = better else { return false };
        if let Some(placed) = self.containers.get_mut(&id) {
            placed.kept = placed.owned.minus(&choice.owned);
            (placed.cpus, placed.owned) = (choice.cpus, choice.owned);
        }
        true
    }

    /// Moves the first container whose new group would have less load per CPU, with it, than its
    /// present one has.
    fn improve_shared(&mut self) -> bool {
        let pool = self.pool();
        let better = self.shared().find_map(|(id, placed)| {
            let (level, group) = (self.level_of(id)?, placed.group?);
            let loads = self.loads(level, &pool);
            let present = loads.iter().find(|(index, _)| *index == group)?.1;
            let with = |load: Load| {
                let milli = load.milli.saturating_add(load_of(placed, load.cpus));
                Load { milli, ..load }
            };
            let others = loads.iter().filter(|(index, _)| *index != group);
            let others = others.map(|(index, load)| (*index, with(*load)));
            let least =
                others.reduce(|best, next| if next.1.is_less(best.1) { next } else { best });
            least.filter(|(_, load)| load.is_less(present)).map(|(index, _)| (id.clone(), index))
        });
        let Some((id, group)) = better else { return false };
        if let Some(placed) = self.containers.get_mut(&id) {
            placed.group = Some(group);
        }
        true
    }
}

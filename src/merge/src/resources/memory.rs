//! Memory controller, each value with a separate owner.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxMemory, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    let memory = &requested.memory;
    claims.claim_fields([
        (memory.limit.is_some(), Field::MemLimit),
        (memory.reservation.is_some(), Field::MemReservation),
        (memory.swap.is_some(), Field::MemSwapLimit),
        (memory.kernel.is_some(), Field::MemKernelLimit),
        (memory.kernel_tcp.is_some(), Field::MemTCPLimit),
        (memory.swappiness.is_some(), Field::MemSwappiness),
        (memory.disable_oom_killer.is_some(), Field::MemDisableOomKiller),
        (memory.use_hierarchy.is_some(), Field::MemUseHierarchy),
    ])
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    if *requested.memory == LinuxMemory::default() {
        return;
    }
    let (from, to) = (&requested.memory, into.memory.mut_or_insert_default());
    macro_rules! copy_if_set {
        ($($field:ident),*) => {$(
            if from.$field.is_some() {
                to.$field.clone_from(&from.$field);
            }
        )*};
    }
    copy_if_set!(
        limit,
        reservation,
        swap,
        kernel,
        kernel_tcp,
        swappiness,
        disable_oom_killer,
        use_hierarchy
    );
}

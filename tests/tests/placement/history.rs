//! Random histories of containers, which do not depend on what plugins decide.

use nri_tests::random::Random;
use nri_topology::hardware::machine::Machine;

/// Largest number of exclusive CPUs that a container asks for.
const LARGEST: usize = 8;

/// Parts of the CPUs that are asked for, in percent: creations and removals are equally frequent
/// between these.
const LOAD: [usize; 2] = [60, 80];

/// Something that happens to a container, which is known by the number of its creation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// It is created and started. It asks for this many exclusive CPUs; with 0, it shares CPUs.
    Create(usize),
    /// It stops and is removed.
    Stop(usize),
}

/// Returns a history: containers with 1 to 8 exclusive CPUs, at most a quarter of all CPUs, and one
/// container in five that shares CPUs.
pub(crate) fn any(machine: &Machine, events: usize, seed: u64) -> Vec<Event> {
    let mut random = Random::new(seed);
    let cpus = machine.cpus.len();
    let [low, high] = LOAD.map(|percent| cpus * percent / 100);
    let (mut history, mut alive, mut used) = (Vec::new(), Vec::<(usize, usize)>::new(), 0);
    while history.len() < events {
        let size = match random.one_in(5) {
            true => 0,
            false => 1 + random.below(LARGEST.min(cpus / 4)),
        };
        let is_created = used < low || random.one_in(2);
        if is_created && used + size <= high {
            alive.push((history.len(), size));
            used += size;
            history.push(Event::Create(size));
        } else if !alive.is_empty() {
            let (number, size) = alive.swap_remove(random.below(alive.len()));
            used -= size;
            history.push(Event::Stop(number));
        }
    }
    history
}

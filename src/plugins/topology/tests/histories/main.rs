//! Random histories of containers on the topologies of real machines and a synthetic one: creates,
//! updates, stops, failures and restarts, with the invariants of the allocator after each event.
//!
//! `NRI_TOPOLOGY_HISTORIES` is the number of histories, by default a short form;
//! `make topology-histories` has 100,000.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests

mod away;
mod container;
mod counts;
mod empty;
mod invariants;
mod machines;
mod oracle;
mod world;

use counts::Counts;
use proptest::{prelude::*, test_runner::TestRunner};
use world::{History, Op, World};

/// Number of histories without the variable.
const SHORT: u32 = 300;

fn history() -> impl Strategy<Value = History> {
    let op = prop_oneof![
        6 => (any::<u32>(), any::<u32>()).prop_map(|(what, size)| Op::Create { what, size }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(what, size)| Op::CreateFails { what, size }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(what, size)| Op::CreateUnseen { what, size }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(what, size)| Op::Forge { what, size }),
        3 => (any::<u32>(), any::<u32>()).prop_map(|(which, size)| Op::Update { which, size }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(which, size)| Op::UpdateFails { which, size }),
        1 => (any::<u32>(), any::<u32>())
            .prop_map(|(which, size)| Op::UpdateFailsUnseen { which, size }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(which, size)| Op::UpdateAway { which, size }),
        4 => any::<u32>().prop_map(|which| Op::Stop { which }),
        1 => any::<u32>().prop_map(|which| Op::StopUnseen { which }),
        1 => Just(Op::Restart),
    ];
    (any::<u32>(), any::<u32>(), prop::collection::vec(op, 1..40))
        .prop_map(|(machine, policy, ops)| History { machine, policy, ops })
}

#[test]
fn invariants_hold_after_each_event() {
    let cases = std::env::var("NRI_TOPOLOGY_HISTORIES").map_or(SHORT, |n| n.parse().unwrap());
    let machines = machines::all();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..ProptestConfig::default()
    };
    let counts = std::cell::RefCell::new(Counts::default());
    let result = TestRunner::new(config).run(&history(), |history| {
        let (name, machine) = &machines[history.machine as usize % machines.len()];
        let mut world = World::new(machine.clone(), history.policy);
        for op in &history.ops {
            world.run(op).map_err(|error| {
                TestCaseError::fail(format!("{name}, policy {}: {op:?}: {error}", world.policy))
            })?;
        }
        world.restart().map_err(TestCaseError::fail)?;
        counts.borrow_mut().add(&world.counts);
        Ok(())
    });
    println!("{:?}", counts.borrow());
    result.unwrap();
    let rare = counts.borrow().rarest();
    assert!(rare.1 > 0, "no history had {}", rare.0);
}

/// A history has one outcome: nothing depends on addresses, clocks or hash keys.
#[test]
fn a_history_has_one_outcome() {
    let machines = machines::all();
    let config = ProptestConfig { cases: 50, failure_persistence: None, ..Default::default() };
    let run = |history: &History| {
        let (_, machine) = &machines[history.machine as usize % machines.len()];
        let mut world = World::new(machine.clone(), history.policy);
        history.ops.iter().for_each(|op| world.run(op).unwrap());
        format!("{:?}", world.allocator.containers())
    };
    TestRunner::new(config)
        .run(&history(), |history| {
            prop_assert_eq!(run(&history), run(&history));
            Ok(())
        })
        .unwrap();
}

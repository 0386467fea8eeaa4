//! Measures messages on the wire: frames of the trunk, and a call of a plugin in the same process.

use criterion::{Criterion, criterion_group, criterion_main};
use nri_bench::{Merge, Session, frames};

fn wire(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire");
    for size in [1 << 10, 1 << 20] {
        let payload = vec![b'x'; size];
        group.bench_function(format!("frames of {size} bytes"), |b| b.iter(|| frames(&payload)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be created");
    let (session, merge) = (runtime.block_on(Session::new()), Merge::new(1));
    group.bench_function("call of a plugin", |b| {
        b.iter(|| runtime.block_on(session.call(merge.request())))
    });
    group.finish();
}

criterion_group!(benches, wire);
criterion_main!(benches);

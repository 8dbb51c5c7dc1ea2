//! Decisions of the scheduler per second, in the shapes of Kubernetes' scheduler_perf, with every node scored.
//!
//! What is timed is the scheduler's own work for one pod: deciding, and taking its binding over. Making objects and
//! keeping the view is not. `cargo bench -p coracle-controller-core --bench scheduler -- basic/5000`

mod bed;
mod shapes;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn shapes(criterion: &mut Criterion) {
    for shape in shapes::SHAPES {
        for nodes in shape.nodes {
            let mut group = criterion.benchmark_group(shape.name);
            group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(2));
            group.throughput(Throughput::Elements(1));
            // One cluster for all samples, so that the look at every node that the first pod of a template costs is
            // shared by as many pods as the shape measures.
            let mut bed = shape.bed(*nodes);
            group.bench_function(nodes.to_string(), |bencher| {
                bencher.iter_custom(|decisions| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..decisions {
                        if bed.is_worn() {
                            bed = shape.bed(*nodes);
                        }
                        spent += bed.decide(shape);
                    }
                    spent
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, shapes);
criterion_main!(benches);

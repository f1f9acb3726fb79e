//! A day of spot nodes under each policy: planning, simulating and booking, without writing files.

use autohet::cost::{CostModel, CostSettings};
use autohet::elastic::checkpoint::CheckpointSettings;
use autohet::elastic::{ReconfigurationSettings, policies};
use autohet::model::ModelSpec;
use autohet::plan::TrainingSettings;
use autohet::replay::{ReplaySettings, replay};
use autohet::trace::{OfferDefaults, read};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use std::slice;

fn day(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/aws-spot.csv");
    let trace = read(&path).expect("our own trace");
    let events = trace.cluster_events(&OfferDefaults::default()).expect("our own trace");
    let cost = CostModel::new(ModelSpec::preset("gpt3-6.7b").expect("a preset"), CostSettings::default(), None);
    let (training, checkpoint, reconfiguration) =
        (TrainingSettings::default(), CheckpointSettings::default(), ReconfigurationSettings::default());
    let settings =
        ReplaySettings { cost: &cost, training: &training, checkpoint: &checkpoint, reconfiguration: &reconfiguration };
    let mut group = criterion.benchmark_group("replay_aws_spot");
    group.sample_size(10);
    for name in policies::NAMES {
        let policy = policies::by_name(name).expect("one of the names");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let policies = slice::from_ref(&policy);
                black_box(replay(&events, trace.span, policies, settings, &|_| ())).expect("it runs")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, day);
criterion_main!(benches);

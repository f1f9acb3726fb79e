//! Stages of unlike tensor-parallel degrees, within a replica and across replicas.

use super::*;

/// The job with unlike stages: of each stage of each replica its degree.
fn of_degrees(mut job: Job, degrees: &[&[u32]]) -> Job {
    for (replica, degrees) in job.plan.replicas.iter_mut().zip(degrees) {
        for (stage, &degree) in replica.stages.iter_mut().zip(*degrees) {
            stage.gpus = (0..degree).collect();
        }
    }
    assert_eq!(job.plan.validate_shape(&job.model), Ok(()));
    job
}

#[rstest]
fn stages_of_unlike_degrees_compute_what_one_process_computes(
    #[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str,
    #[values(false, true)] sequence_parallel: bool,
) {
    let model = small(name);
    let alone = run(&job(&model, Setting { micro_batch_size: 2, ..ALONE }, &[(6, &[4])]));
    let pipelines: [(Replicas<'_>, &[&[u32]]); 6] = [
        (&[(6, &[1, 3])], &[&[2, 1]]),
        (&[(6, &[3, 1])], &[&[1, 2]]),
        (&[(6, &[1, 2, 1])], &[&[1, 4, 2]]),
        // Replicas of unlike degrees, which hold unlike parts of each block.
        (&[(3, &[4]), (3, &[4])], &[&[2], &[1]]),
        (&[(4, &[2, 2]), (2, &[4])], &[&[4, 2], &[1]]),
        (&[(2, &[1, 3]), (4, &[3, 1])], &[&[1, 2], &[2, 4]]),
    ];
    let ways = [
        (ScheduleKind::OneForwardOneBackward, Recompute::None),
        (ScheduleKind::GPipe, Recompute::Full),
        (ScheduleKind::OneForwardOneBackward, Recompute::Selective),
    ];
    for (index, (replicas, degrees)) in pipelines.into_iter().enumerate() {
        let (schedule, recompute) = ways[index % ways.len()];
        let setting = Setting { micro_batch_size: 2, recompute, schedule, sequence_parallel, ..ALONE };
        assert_same(&model, &run(&of_degrees(job(&model, setting, replicas), degrees)), &alone);
    }
}

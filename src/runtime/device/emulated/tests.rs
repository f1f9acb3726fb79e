use super::*;
use crate::ids::LayerId;
use std::sync::Mutex;

/// A clock that moves only by sleeping, and always a little too far.
#[derive(Clone, Default)]
struct Late {
    time: Arc<Mutex<Duration>>,
    by: Duration,
}

impl Sleeper for Late {
    fn now(&self) -> Duration {
        *self.time.lock().unwrap()
    }

    fn sleep_until(&mut self, time: Duration) {
        *self.time.lock().unwrap() = time + self.by;
    }
}

const LAYER: Block = Block::Layer(LayerId(1));

fn middle_stage() -> EmulatedRank {
    let block = |block, forward_s, backward_s| EmulatedBlock { block, forward_s, backward_s, parameters: 3 };
    EmulatedRank {
        blocks: vec![block(LAYER, 0.010, 0.020), block(Block::Head, 0.001, 0.002)],
        optimizer_s: 0.005,
        boundary_bytes: 10,
        reduced: vec![(Block::Embedding, 8)],
    }
}

fn emulated(late: &Late) -> (Arc<Mailbox>, Emulated<Late>) {
    let mailbox = Arc::new(Mailbox::default());
    let stage = Emulated::with_sleeper(&middle_stage(), Arc::clone(&mailbox), TrainingState::default(), late.clone());
    (mailbox, stage)
}

fn iteration(mailbox: &Mailbox, stage: &mut dyn Compute, micro_batches: u32) {
    for micro_batch in (0..micro_batches).map(MicroBatch) {
        mailbox.received().put(Direction::Downstream, micro_batch, vec![0.0; 3]);
        stage.forward(micro_batch).unwrap();
        stage.backward(micro_batch, Part::Chunk).unwrap();
        assert_eq!(mailbox.to_send().take(Direction::Upstream, micro_batch), [0.0; 3]);
    }
    stage.optimizer_step(Update { gradient_scale: 1.0 }).unwrap();
}

#[test]
fn sums_of_sleeps_are_right_though_each_is_too_long() {
    let late = Late { by: Duration::from_micros(80), ..Late::default() };
    let (mailbox, mut stage) = emulated(&late);
    for _ in 0..10 {
        iteration(&mailbox, &mut stage, 5);
    }
    // Ten iterations of five times (10 + 1) + (20 + 2) ms, and 5 ms; what the last sleep took too long is still owed.
    assert_eq!(late.now(), Duration::from_millis(10 * (5 * 33 + 5)) + late.by);
    let times = stage.take_measured().block_times;
    assert_eq!(times.len(), 10 * 5 * 4);
    let sum: f64 = times.iter().map(|time| time.seconds).sum();
    assert!((sum - 10.0 * 5.0 * 0.033).abs() < 10.0 * 0.000_08, "{sum}");
    assert!(stage.take_measured().block_times.is_empty());
}

#[test]
fn a_sleep_shorter_than_what_is_owed_is_left_out() {
    let late = Late { by: Duration::from_millis(3), ..Late::default() };
    let mut debtor = Debtor::new(late.clone());
    let took: Vec<_> = [10, 1, 1, 5].map(|ms| debtor.spend(Duration::from_millis(ms)).as_millis()).into();
    // The first one leaves a debt of 3 ms, of which the next two pay 1 ms each; the last sleeps for 4 of 5 ms.
    assert_eq!(took, [13, 0, 0, 7]);
}

#[test]
fn a_state_counts_its_steps_and_is_handed_on() {
    let late = Late::default();
    let (mailbox, mut stage) = emulated(&late);
    iteration(&mailbox, &mut stage, 2);
    assert_eq!(mailbox.gradients()[&Block::Embedding], [0.0; 2]);
    let state = Box::new(stage).into_state();
    assert_eq!((state.step, &state.blocks[&LAYER].values), (1, &vec![1.0, 0.0, 0.0]));
    let mut next = Emulated::with_sleeper(&middle_stage(), Arc::clone(&mailbox), state, late);
    iteration(&mailbox, &mut next, 1);
    assert_eq!((next.state().step, next.state().blocks[&Block::Head].values[0]), (2, 2.0));
}

#[test]
fn a_slowed_stage_takes_a_multiple() {
    let late = Late { by: Duration::from_micros(80), ..Late::default() };
    let (mailbox, stage) = emulated(&late);
    let mut slowed = Slowed::with_sleeper(Box::new(stage), 2.5, late.clone());
    iteration(&mailbox, &mut slowed, 4);
    let exact = Duration::from_micros(2500 * (4 * 33 + 5));
    assert!(late.now().saturating_sub(exact) < 4 * late.by, "{:?} instead of {exact:?}", late.now());
    let sum: f64 = slowed.take_measured().block_times.iter().map(|time| time.seconds).sum();
    assert!((sum - 2.5 * 4.0 * 0.033).abs() < 0.001, "{sum}");
}

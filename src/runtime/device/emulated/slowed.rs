//! A rank made slower than it is.

use super::sleeper::{Debtor, Sleeper, SystemSleeper};
use crate::ids::MicroBatch;
use crate::program::Part;
use crate::runtime::device::DeviceError;
use crate::runtime::device::compute::{Compute, Measured, TrainingState, Update};

/// A stage whose passes take `factor` times as long as those of the stage within.
pub(in super::super) struct Slowed<S = SystemSleeper> {
    inner: Box<dyn Compute>,
    factor: f64,
    sleeper: Debtor<S>,
}

impl Slowed {
    /// Slows a stage down; a factor of 1 leaves it as it is.
    pub(in super::super) fn new(inner: Box<dyn Compute>, factor: f64) -> Self {
        Self::with_sleeper(inner, factor, SystemSleeper::default())
    }
}

impl<S: Sleeper> Slowed<S> {
    pub(super) fn with_sleeper(inner: Box<dyn Compute>, factor: f64, sleeper: S) -> Self {
        Self { inner, factor, sleeper: Debtor::new(sleeper) }
    }

    fn slowly<T>(&mut self, pass: impl FnOnce(&mut dyn Compute) -> T) -> T {
        let start = self.sleeper.now();
        let done = pass(&mut *self.inner);
        let took = self.sleeper.now().saturating_sub(start);
        self.sleeper.spend(took.mul_f64((self.factor - 1.0).max(0.0)));
        done
    }
}

impl<S: Sleeper> Compute for Slowed<S> {
    fn forward(&mut self, micro_batch: MicroBatch) -> Result<(), DeviceError> {
        self.slowly(|stage| stage.forward(micro_batch))
    }

    fn backward(&mut self, micro_batch: MicroBatch, part: Part) -> Result<(), DeviceError> {
        self.slowly(|stage| stage.backward(micro_batch, part))
    }

    fn loss(&self) -> f64 {
        self.inner.loss()
    }

    fn squared_gradient_norm(&mut self) -> f64 {
        self.inner.squared_gradient_norm()
    }

    fn optimizer_step(&mut self, update: Update) -> Result<(), DeviceError> {
        self.slowly(|stage| stage.optimizer_step(update))
    }

    fn abandon_iteration(&mut self) {
        self.inner.abandon_iteration();
    }

    /// The blocks' times are those of the slower device.
    fn take_measured(&mut self) -> Measured {
        let mut measured = self.inner.take_measured();
        measured.block_times.iter_mut().for_each(|time| time.seconds *= self.factor);
        measured
    }

    fn state(&self) -> TrainingState {
        self.inner.state()
    }

    fn into_state(self: Box<Self>) -> TrainingState {
        self.inner.into_state()
    }
}

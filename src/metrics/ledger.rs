//! The goodput ledger: every GPU-second paid for, in exactly one row.

use crate::units::SimTime;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ops::{Add, AddAssign};

/// What a GPU's time can go into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Forward and backward passes and optimizer steps of iterations that count.
    Useful,
    /// Waiting for other stages or replicas.
    Bubble,
    /// Waiting for a transfer or a collective under way.
    ExposedCommunication,
    /// Forward passes done again for the backward pass, or for a neighbour that may be lost.
    Recomputation,
    /// Standing still while a snapshot is taken.
    CheckpointStall,
    /// Iterations that were cut off or rolled back.
    LostWork,
    /// Detecting a loss, planning, fetching state, starting again.
    Recovery,
    /// In the cluster, but not used by the plan.
    IdleByPlan,
    /// No plan fits what is there.
    Waiting,
}

impl Activity {
    /// All rows, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Useful,
        Self::Recomputation,
        Self::ExposedCommunication,
        Self::Bubble,
        Self::CheckpointStall,
        Self::LostWork,
        Self::Recovery,
        Self::IdleByPlan,
        Self::Waiting,
    ];

    /// Key in files.
    pub fn key(self) -> &'static str {
        match self {
            Self::Useful => "useful",
            Self::Bubble => "bubble",
            Self::ExposedCommunication => "exposed_communication",
            Self::Recomputation => "recomputation",
            Self::CheckpointStall => "checkpoint_stall",
            Self::LostWork => "lost_work",
            Self::Recovery => "recovery",
            Self::IdleByPlan => "idle_by_plan",
            Self::Waiting => "waiting",
        }
    }
}

/// Time of GPUs: one GPU for a nanosecond is 1. Exact, so that a ledger can be checked to the last unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuTime(pub u128);

impl GpuTime {
    /// `gpus` GPUs for `time`.
    pub fn of(gpus: u32, time: SimTime) -> Self {
        Self(u128::from(gpus) * u128::from(time.0))
    }

    /// GPU-seconds.
    pub fn as_gpu_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for GpuTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for GpuTime {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for GpuTime {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// GPU time by activity. The rows of a finished replay add up to the GPU time paid for.
///
/// ```
/// use autohet::{metrics::{Activity, GpuTime, Ledger}, units::SimTime};
/// let mut ledger = Ledger::default();
/// ledger.add(Activity::Useful, GpuTime::of(8, SimTime::SECOND));
/// ledger.add(Activity::Bubble, GpuTime::of(8, SimTime::SECOND));
/// assert_eq!(ledger.total().as_gpu_seconds(), 16.0);
/// assert_eq!(ledger.goodput_share(), 0.5);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: [GpuTime; Activity::ALL.len()],
}

impl Ledger {
    /// Books GPU time in a row.
    pub fn add(&mut self, activity: Activity, time: GpuTime) {
        self.rows[activity as usize] += time;
    }

    /// Books all rows of another ledger.
    pub fn add_all(&mut self, other: &Self) {
        for activity in Activity::ALL {
            self.add(activity, other.get(activity));
        }
    }

    /// Books all of another ledger's time in one row: what rolled-back iterations become.
    pub fn add_all_as(&mut self, activity: Activity, other: &Self) {
        self.add(activity, other.total());
    }

    /// The ledger of `count` equal ledgers.
    ///
    /// ```
    /// use autohet::{metrics::{Activity, GpuTime, Ledger}, units::SimTime};
    /// let mut ledger = Ledger::default();
    /// ledger.add(Activity::Useful, GpuTime::of(8, SimTime::SECOND));
    /// assert_eq!(ledger.times(3).total(), GpuTime::of(24, SimTime::SECOND));
    /// ```
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        Self { rows: self.rows.map(|time| GpuTime(time.0 * u128::from(count))) }
    }

    /// One row.
    pub fn get(&self, activity: Activity) -> GpuTime {
        self.rows[activity as usize]
    }

    /// All rows together.
    pub fn total(&self) -> GpuTime {
        self.rows.iter().copied().sum()
    }

    /// Share of useful work in all GPU time; zero for an empty ledger.
    pub fn goodput_share(&self) -> f64 {
        let total = self.total().0;
        if total == 0 { 0.0 } else { self.get(Activity::Useful).0 as f64 / total as f64 }
    }
}

impl Serialize for Ledger {
    /// A map from row to GPU-seconds.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.rows.len()))?;
        for activity in Activity::ALL {
            map.serialize_entry(activity.key(), &self.get(activity).as_gpu_seconds())?;
        }
        map.end()
    }
}

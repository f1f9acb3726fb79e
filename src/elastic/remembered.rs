//! Plans that several replays share.

use crate::cluster::{Cluster, Wiring};
use crate::elastic::policies::Policy;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What planners have answered, by planner and cluster. Planners are pure, so that whoever asks again gets the same.
///
/// To be shared by requests that differ in their cluster alone: one job, one judge, one set of limits.
#[derive(Debug, Default)]
pub struct PlanMemory {
    answers: Mutex<HashMap<(&'static str, String), Answer>>,
}

/// A plan, or why nothing fits and what to do.
type Answer = Result<Arc<PlannedIteration>, (String, String)>;

/// A planner that is asked for each cluster once.
struct Remembered {
    planner: Box<dyn Planner>,
    memory: Arc<PlanMemory>,
}

impl Policy {
    /// The same policy, whose plans are in this memory once they are made.
    #[must_use]
    pub fn remembering(self, memory: &Arc<PlanMemory>) -> Self {
        let planner = Box::new(Remembered { planner: self.planner, memory: Arc::clone(memory) });
        Self { planner, ..self }
    }
}

impl Planner for Remembered {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let key = (self.name(), key(request.cluster));
        let known = self.memory.lock().get(&key).cloned();
        // Nobody waits for another thread's plan: planners share threads, and whoever waited might be in their way.
        let answer = match known {
            Some(answer) => answer,
            None => {
                let answer = match self.planner.plan(request) {
                    Ok(planned) => Ok(Arc::new(planned)),
                    Err(PlanError::DoesNotFit { reason, hint }) => Err((reason, hint)),
                    Err(error) => return Err(error),
                };
                self.memory.lock().insert(key, answer.clone());
                answer
            }
        };
        answer
            .map(|planned| PlannedIteration::clone(&planned))
            .map_err(|(reason, hint)| PlanError::DoesNotFit { reason, hint })
    }
}

impl PlanMemory {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(&'static str, String), Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything of the nodes that a plan can depend on, names included, since plans have them.
fn key(cluster: &Cluster) -> String {
    use std::fmt::Write as _;
    let mut key = String::new();
    for node in &cluster.nodes {
        let Wiring { nics, .. } = node.wiring;
        let (bytes_per_s, latency_s) = (node.nic.bytes_per_s.to_bits(), node.nic.latency_s.to_bits());
        let (name, gpu, count, zone) = (&node.name, &node.gpu.name, node.gpu_count, &node.zone);
        writeln!(key, "{name}|{gpu}|{count}|{zone}|{bytes_per_s:x}|{latency_s:x}|{nics}")
            .expect("writing to a string doesn't fail");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeDefaults;
    use crate::cost::{CostModel, CostSettings};
    use crate::elastic::policies;
    use crate::model::ModelSpec;
    use crate::plan::{PlanLimits, TrainingSettings};
    use crate::runtime::sim::Simulator;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Counting(Arc<AtomicU32>);

    impl Planner for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            crate::planner::baselines::Megatron.plan(request)
        }
    }

    #[test]
    fn a_planner_is_asked_once_for_each_cluster() {
        let asked = Arc::new(AtomicU32::new(0));
        let memory = Arc::default();
        let policy = || policies::by_name("restart").unwrap();
        let counting = || Policy { planner: Box::new(Counting(Arc::clone(&asked))), ..policy() }.remembering(&memory);
        let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None);
        let training = TrainingSettings { global_batch_size: 8, ..TrainingSettings::default() };
        let plan = |policy: &Policy, mix: &str| {
            let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
            let (cluster, cost, limits) = (&cluster, &cost, PlanLimits::default());
            policy.planner.plan(&PlanRequest { cluster, cost, training: &training, judge: &Simulator, limits })
        };
        let (one, two) = (counting(), counting());
        let first = plan(&one, "2x1xA100-40").unwrap();
        assert_eq!(plan(&two, "2x1xA100-40").unwrap(), first);
        assert!(plan(&one, "1x1xT4").is_err() && plan(&two, "1x1xT4").is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}

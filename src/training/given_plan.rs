//! The plan that the user gave, as a planner: in force wherever its nodes are there; elsewhere AutoHet plans.

use crate::cluster::{Cluster, Node};
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::{AutoHet, Engine};
use std::collections::BTreeMap;

/// The given plan first.
pub(super) struct GivenPlan {
    plan: Plan,
    /// The nodes that it was given with, its own among them, whether they are there at the start or come later.
    cluster: Cluster,
    otherwise: AutoHet,
}

impl GivenPlan {
    pub(super) fn new(plan: Plan, cluster: Cluster) -> Self {
        Self { plan, cluster, otherwise: AutoHet { engine: Engine::Search } }
    }

    /// The nodes that the plan uses.
    fn parts(&self) -> impl Iterator<Item = &Node> {
        let stages = || self.plan.replicas.iter().flat_map(|replica| &replica.stages);
        self.cluster.nodes.iter().filter(move |node| stages().any(|stage| stage.node == node.name))
    }

    /// The plan on these nodes, if they are what it takes: each of its nodes played by one with as many GPUs of the type.
    fn on(&self, cluster: &Cluster) -> Option<Plan> {
        let mut free: Vec<&Node> = cluster.nodes.iter().collect();
        let mut played_by: BTreeMap<String, String> = BTreeMap::new();
        for part in self.parts() {
            let fits = |node: &&Node| node.gpu.name == part.gpu.name && node.gpu_count >= part.gpu_count;
            // The smallest that will do, so that larger ones are left for larger parts.
            let place = (0..free.len()).filter(|&at| fits(&free[at])).min_by_key(|&at| free[at].gpu_count)?;
            played_by.insert(part.name.clone(), free.remove(place).name.clone());
        }
        let mut plan = self.plan.clone();
        for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
            stage.node.clone_from(played_by.get(&stage.node)?);
        }
        Some(plan)
    }
}

impl Planner for GivenPlan {
    fn name(&self) -> &'static str {
        "given"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let Some(plan) = self.on(request.cluster) else { return self.otherwise.plan(request) };
        let predicted_iteration_s = request.judge.iteration_s(&plan, request.cluster, request.cost)?;
        // Nothing is proven of a plan that was given.
        Ok(PlannedIteration {
            plan,
            predicted_iteration_s,
            lower_bound_s: 0.0,
            gap: f64::INFINITY,
            any_degrees_bound_s: None,
            alternatives: Vec::new(),
        })
    }
}

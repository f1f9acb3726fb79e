//! Plans by kind of cluster, placed on the nodes that are there.
//!
//! Spot clusters come back to the same mixes of nodes again and again under other names. A plan is made once for each
//! mix, over nodes without names; putting it on named nodes is a matter of letting state stay where it is.

use super::checkpoint::snapshot_stall;
use super::layer_bitmap::LayerBitmap;
use super::placement::{NodeClass, place};
use super::policies::Policy;
use crate::cluster::{Cluster, Node};
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A plan on named nodes.
#[derive(Clone, Debug)]
pub struct PlacedPlan {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What is known of its kind, over nodes without names: the same for every placement.
    pub shape: Arc<PlannedIteration>,
    /// Number of the shape, in the order in which shapes were planned.
    pub shape_number: usize,
    /// How long training stands still for a snapshot.
    pub snapshot_stall: SimTime,
}

impl PlacedPlan {
    /// Whether the plan uses the node.
    pub fn uses(&self, node: &str) -> bool {
        self.plan.replicas.iter().flat_map(|replica| &replica.stages).any(|stage| stage.node == node)
    }

    /// Seconds of an iteration, by the simulator.
    pub fn iteration_s(&self) -> f64 {
        self.shape.predicted_iteration_s
    }
}

/// Nodes of the cluster by class: what a plan depends on.
type Mix = Vec<(NodeClass, usize)>;

/// The plans made so far.
pub(super) struct PlanCache<'a> {
    policy: &'a Policy,
    request: PlanRequest<'a>,
    /// Shapes by mix; the text is why nothing fits.
    by_mix: BTreeMap<Mix, Result<usize, (String, String)>>,
    shapes: Vec<Arc<PlannedIteration>>,
}

impl<'a> PlanCache<'a> {
    pub(super) fn new(policy: &'a Policy, request: PlanRequest<'a>) -> Self {
        Self { policy, request, by_mix: BTreeMap::new(), shapes: Vec::new() }
    }

    /// The plan for these nodes, placed so that as much state as possible stays where it is.
    pub(super) fn plan_for(&mut self, cluster: &Cluster, bitmap: &LayerBitmap) -> Result<PlacedPlan, PlanError> {
        if cluster.nodes.is_empty() {
            return Err(PlanError::EmptyCluster);
        }
        let number = if self.policy.fixed_shape && !self.shapes.is_empty() { 0 } else { self.shape_for(cluster)? };
        let shape = Arc::clone(&self.shapes[number]);
        let plan = place(&shape.plan, cluster, bitmap).ok_or_else(|| waits_for_shape(&shape.plan, cluster))?;
        let snapshot_stall = snapshot_stall(&plan, self.request.cost, cluster);
        Ok(PlacedPlan { plan: Arc::new(plan), shape, shape_number: number, snapshot_stall })
    }

    fn shape_for(&mut self, cluster: &Cluster) -> Result<usize, PlanError> {
        let mix = mix(cluster);
        if let Some(known) = self.by_mix.get(&mix) {
            return known.clone().map_err(|(reason, hint)| PlanError::DoesNotFit { reason, hint });
        }
        let nameless = nameless(cluster);
        // A plan that is used at once needs no proof.
        let request = PlanRequest { cluster: &nameless, ..self.request }.without_proof();
        let planned = self.policy.planner.plan(&request);
        let known = match planned {
            Ok(planned) => {
                // What was passed over would only take memory: one shape stays for each mix.
                self.shapes.push(Arc::new(PlannedIteration { alternatives: Vec::new(), ..planned }));
                Ok(self.shapes.len() - 1)
            }
            Err(PlanError::DoesNotFit { reason, hint }) => Err((reason, hint)),
            Err(error) => return Err(error),
        };
        self.by_mix.insert(mix, known.clone());
        known.map_err(|(reason, hint)| PlanError::DoesNotFit { reason, hint })
    }
}

fn mix(cluster: &Cluster) -> Mix {
    let mut counts: BTreeMap<NodeClass, usize> = BTreeMap::new();
    for node in &cluster.nodes {
        *counts.entry(NodeClass::of(node)).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// The same nodes in the order of their classes, named after class and number only.
fn nameless(cluster: &Cluster) -> Cluster {
    let mut nodes: Vec<Node> = cluster.nodes.clone();
    nodes.sort_by_cached_key(NodeClass::of);
    let mut seen: BTreeMap<NodeClass, usize> = BTreeMap::new();
    for node in &mut nodes {
        let class = NodeClass::of(node);
        let number = seen.entry(class.clone()).or_default();
        node.name = class.name(*number);
        *number += 1;
    }
    Cluster { nodes }
}

fn waits_for_shape(plan: &Plan, cluster: &Cluster) -> PlanError {
    let stages = plan.replicas.iter().flat_map(|replica| &replica.stages);
    let nodes: BTreeSet<&str> = stages.map(|stage| stage.node.as_str()).collect();
    PlanError::DoesNotFit {
        reason: format!("the plan needs {} nodes of certain types, {} are up", nodes.len(), cluster.nodes.len()),
        hint: "wait until nodes of the same types are back, or use a policy that re-plans".into(),
    }
}

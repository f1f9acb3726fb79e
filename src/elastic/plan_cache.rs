//! Plans by kind of cluster, placed on the nodes that are there.
//!
//! Spot clusters come back to the same mixes of nodes again and again under other names. A plan is made once for each
//! mix, over nodes without names; putting it on named nodes is a matter of letting state stay where it is.

use super::checkpoint::snapshot_stall;
use super::composition::{Composition, Mix, nameless};
use super::layer_bitmap::LayerBitmap;
use super::placement::{NodeClass, place};
use super::policies::{Outlook, PlanChoice, Policy, liveput};
use crate::cluster::Cluster;
use crate::plan::{JudgedPlan, LowerBound, Plan, PlanError, PlanRequest, PlannedIteration};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
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
        self.nodes().any(|name| name == node)
    }

    /// The nodes that it uses, one for each stage.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.plan.replicas.iter().flat_map(|replica| &replica.stages).map(|stage| stage.node.as_str())
    }

    /// Seconds of an iteration, by the simulator.
    pub fn iteration_s(&self) -> f64 {
        self.shape.predicted_iteration_s
    }
}

/// The plans made so far.
pub(super) struct PlanCache<'a> {
    policy: &'a Policy,
    request: PlanRequest<'a>,
    /// Shapes by mix, the fastest first; the text is why nothing fits.
    by_mix: BTreeMap<Mix, Result<Range<usize>, (String, String)>>,
    /// Shapes that other plans have become, by their plan over nodes without names.
    by_plan: BTreeMap<String, usize>,
    shapes: Vec<Arc<PlannedIteration>>,
}

impl<'a> PlanCache<'a> {
    pub(super) fn new(policy: &'a Policy, request: PlanRequest<'a>) -> Self {
        Self { policy, request, by_mix: BTreeMap::new(), by_plan: BTreeMap::new(), shapes: Vec::new() }
    }

    /// The number of the shape that the policy chooses for these nodes.
    pub(super) fn shape_for(&mut self, nodes: &Composition, outlook: Outlook) -> Result<usize, PlanError> {
        if nodes.cluster.nodes.is_empty() {
            return Err(PlanError::EmptyCluster);
        }
        if self.policy.fixed_shape && !self.shapes.is_empty() {
            return Ok(0);
        }
        let shapes = self.shapes_for(nodes)?;
        if self.policy.choice == PlanChoice::Fastest {
            return Ok(shapes.start);
        }
        let expected = |number: usize| {
            let shape = &self.shapes[number];
            liveput(&shape.plan, shape.predicted_iteration_s, outlook)
        };
        // Of equals the first, which is the fastest.
        let best = shapes.clone().rev().max_by(|a, b| expected(*a).total_cmp(&expected(*b)));
        Ok(best.unwrap_or(shapes.start))
    }

    /// A shape by its number.
    pub(super) fn shape(&self, number: usize) -> &Arc<PlannedIteration> {
        &self.shapes[number]
    }

    /// A shape on these nodes, placed so that as much state as possible stays where it is.
    pub(super) fn placed(
        &self,
        number: usize,
        nodes: &Composition,
        bitmap: &LayerBitmap,
    ) -> Result<PlacedPlan, PlanError> {
        let (shape, cluster) = (Arc::clone(&self.shapes[number]), &nodes.cluster);
        let plan = place(&shape.plan, cluster, bitmap).ok_or_else(|| waits_for_shape(&shape.plan, cluster))?;
        let snapshot_stall = snapshot_stall(&plan, self.request.cost, cluster);
        Ok(PlacedPlan { plan: Arc::new(plan), shape, shape_number: number, snapshot_stall })
    }

    /// Whether the plan for such nodes has been made.
    pub(super) fn has(&self, nodes: &Composition) -> bool {
        if self.policy.fixed_shape { !self.shapes.is_empty() } else { self.by_mix.contains_key(&nodes.mix) }
    }

    /// What another plan has become, on the nodes that it names; `None` if it isn't valid for them.
    pub(super) fn adopt(&mut self, plan: Plan, cluster: &Cluster) -> Result<Option<PlacedPlan>, PlanError> {
        if plan.validate(cluster, self.request.cost).is_err() {
            return Ok(None);
        }
        let nameless = without_names(&plan, cluster);
        let key = nameless.to_json();
        let shape_number = if let Some(&known) = self.by_plan.get(&key) {
            known
        } else {
            let predicted_iteration_s = self.request.judge.iteration_s(&plan, cluster, self.request.cost)?;
            // Nobody asks how good a plan is that nobody has looked for.
            let bound = LowerBound::of_all(predicted_iteration_s);
            let judged = JudgedPlan { plan: nameless, predicted_iteration_s };
            let shape = PlannedIteration::new(judged, bound, Vec::new());
            self.shapes.push(Arc::new(shape));
            self.by_plan.insert(key, self.shapes.len() - 1);
            self.shapes.len() - 1
        };
        let snapshot_stall = snapshot_stall(&plan, self.request.cost, cluster);
        let shape = Arc::clone(&self.shapes[shape_number]);
        Ok(Some(PlacedPlan { plan: Arc::new(plan), shape, shape_number, snapshot_stall }))
    }

    /// The shapes for these nodes, the fastest first.
    fn shapes_for(&mut self, nodes: &Composition) -> Result<Range<usize>, PlanError> {
        if let Some(known) = self.by_mix.get(&nodes.mix) {
            return known.clone().map_err(|(reason, hint)| PlanError::DoesNotFit { reason, hint });
        }
        let nameless = nameless(&nodes.cluster);
        // A plan that is used at once needs no proof.
        let request = PlanRequest { cluster: &nameless, ..self.request }.without_proof();
        let planned = self.policy.planner.plan(&request);
        let known = match planned {
            Ok(planned) => {
                let first = self.shapes.len();
                // What was passed over would only take memory, but where the policy may want it another time.
                let others: Vec<PlannedIteration> = match self.policy.choice {
                    PlanChoice::Fastest => Vec::new(),
                    PlanChoice::Liveput => planned.alternatives.iter().map(|other| instead(other, &planned)).collect(),
                };
                self.shapes.push(Arc::new(PlannedIteration { alternatives: Vec::new(), ..planned }));
                self.shapes.extend(others.into_iter().map(Arc::new));
                Ok(first..self.shapes.len())
            }
            Err(PlanError::DoesNotFit { reason, hint }) => Err((reason, hint)),
            Err(error) => return Err(error),
        };
        self.by_mix.insert(nodes.mix.clone(), known.clone());
        known.map_err(|(reason, hint)| PlanError::DoesNotFit { reason, hint })
    }
}

/// A plan that was passed over, with what is known of it.
fn instead(other: &JudgedPlan, chosen: &PlannedIteration) -> PlannedIteration {
    PlannedIteration::new(other.clone(), chosen.bound(), Vec::new())
}

/// The plan with its nodes named by their classes in the order in which the plan names them.
pub(crate) fn without_names(plan: &Plan, cluster: &Cluster) -> Plan {
    let classes: BTreeMap<&str, NodeClass> =
        cluster.nodes.iter().map(|node| (node.name.as_str(), NodeClass::of(node))).collect();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut plan = plan.clone();
    for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
        let number = names.len();
        let name = names.entry(stage.node.clone()).or_insert_with(|| classes[stage.node.as_str()].name(number));
        stage.node.clone_from(name);
    }
    plan
}

fn waits_for_shape(plan: &Plan, cluster: &Cluster) -> PlanError {
    let stages = plan.replicas.iter().flat_map(|replica| &replica.stages);
    let nodes: BTreeSet<&str> = stages.map(|stage| stage.node.as_str()).collect();
    PlanError::DoesNotFit {
        reason: format!("the plan needs {} nodes of certain types, {} are up", nodes.len(), cluster.nodes.len()),
        hint: "wait until nodes of the same types are back, or use a policy that re-plans".into(),
    }
}

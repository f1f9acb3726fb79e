//! Repairs of a plan: what becomes of its replicas when nodes are gone or have come.

use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::plan::{Plan, PlanRequest, Replica, Stage};
use crate::planner::autohet::Regrouping;
use crate::planner::autohet::balance::split_micro_batches;
use std::cmp::Reverse;
use std::collections::HashMap;

/// A replica in repair: its stages, some of which have lost their GPUs.
#[derive(Clone, Debug)]
struct Draft {
    stages: Vec<Stage>,
    missing: Vec<bool>,
}

impl Draft {
    fn count_missing(&self) -> usize {
        self.missing.iter().filter(|missing| **missing).count()
    }
}

/// GPUs that no stage has, by node.
#[derive(Clone)]
struct Free<'a> {
    cluster: &'a Cluster,
    gpus: Vec<Vec<u32>>,
    places: HashMap<&'a str, usize>,
}

/// Plans over the nodes that are there, each made of the old one in another way. They may not fit, or be the same.
pub(super) fn repairs(request: &PlanRequest, old: &Plan, regrouping: Option<&Regrouping>) -> Vec<Plan> {
    let Some(regrouping) = regrouping else { return Vec::new() };
    let free = Free::new(request.cluster);
    let (drafts, free) = drafts(old, free);
    let assemble = |drafts: &[Draft]| assembled(old, drafts, request.cluster, regrouping);
    let intact: Vec<Draft> = drafts.iter().filter(|draft| draft.count_missing() == 0).cloned().collect();
    let mut plans = vec![assemble(&intact)];
    for dissolves in [false, true] {
        let (mut drafts, mut free) = (drafts.clone(), free.clone());
        refill(&mut drafts, &mut free, dissolves);
        plans.push(assemble(&shrunk(&drafts, request.cluster, regrouping)));
        drafts.retain(|draft| draft.count_missing() == 0);
        grow(&mut drafts, &mut free);
        plans.push(assemble(&drafts));
    }
    plans.push(assemble(&shrunk(&drafts, request.cluster, regrouping)));
    plans.into_iter().flatten().collect()
}

/// The old replicas, and the GPUs that they don't use.
fn drafts<'a>(old: &Plan, mut free: Free<'a>) -> (Vec<Draft>, Free<'a>) {
    let draft = |replica: &Replica| {
        let missing = replica.stages.iter().map(|stage| !free.take(stage)).collect();
        Draft { stages: replica.stages.clone(), missing }
    };
    let drafts = old.replicas.iter().map(draft).collect();
    (drafts, free)
}

/// Gives free GPUs of the same type to stages that lost theirs, where a whole replica can be had. If replicas may be
/// dissolved, those that lack most leave theirs to others.
fn refill(drafts: &mut [Draft], free: &mut Free, dissolves: bool) {
    let mut broken: Vec<usize> = (0..drafts.len()).filter(|&index| drafts[index].count_missing() > 0).collect();
    broken.sort_by_key(|&index| Reverse(drafts[index].count_missing()));
    while let Some(index) = broken.pop() {
        while !free.fill(&mut drafts[index]) {
            if !dissolves || broken.is_empty() {
                break;
            }
            free.release(&mut drafts[broken.remove(0)]);
        }
    }
}

/// Replicas that lack stages go on with those they have, their layers balanced anew.
fn shrunk(drafts: &[Draft], cluster: &Cluster, regrouping: &Regrouping) -> Vec<Draft> {
    let shrink = |draft: &Draft| {
        if draft.count_missing() == 0 {
            return Some(draft.clone());
        }
        let left = draft.stages.iter().zip(&draft.missing).filter(|(_, missing)| !**missing);
        let mut stages: Vec<Stage> = left.map(|(stage, _)| stage.clone()).collect();
        let layers = regrouping.layers(&stages, drafts.len() as u32, cluster)?;
        let mut first_layer = 0;
        for (stage, num_layers) in stages.iter_mut().zip(layers) {
            (stage.first_layer, stage.num_layers) = (first_layer, num_layers);
            stage.later_chunks.clear();
            first_layer += num_layers;
        }
        Some(Draft { missing: vec![false; stages.len()], stages })
    };
    drafts.iter().filter_map(shrink).collect()
}

/// Adds replicas of the commonest shape as long as there are GPUs for them.
fn grow(drafts: &mut Vec<Draft>, free: &mut Free) {
    let alike = |a: &Draft, b: &Draft| {
        let like = |(a, b): (&Stage, &Stage)| {
            (&a.gpu_type, a.gpus.len(), a.layer_count()) == (&b.gpu_type, b.gpus.len(), b.layer_count())
        };
        a.stages.len() == b.stages.len() && a.stages.iter().zip(&b.stages).all(like)
    };
    let mut counts: Vec<(Draft, usize)> = Vec::new();
    for draft in drafts.iter() {
        match counts.iter_mut().find(|(known, _)| alike(known, draft)) {
            Some((_, count)) => *count += 1,
            None => counts.push((draft.clone(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| Reverse(*count));
    for (template, _) in counts {
        loop {
            let mut draft = Draft { missing: vec![true; template.stages.len()], ..template.clone() };
            if !free.fill(&mut draft) {
                break;
            }
            drafts.push(draft);
        }
    }
}

/// The plan of complete replicas, micro batches shared out anew; `None` where that makes no plan.
fn assembled(old: &Plan, drafts: &[Draft], cluster: &Cluster, regrouping: &Regrouping) -> Option<Plan> {
    let paces = drafts.iter().map(|draft| regrouping.pace(&draft.stages, cluster)).collect::<Option<Vec<_>>>()?;
    let shares = split_micro_batches(&paces, regrouping.micro_batches())?;
    let replica = |(draft, micro_batches): (&Draft, u32)| Replica { micro_batches, stages: draft.stages.clone() };
    let replicas: Vec<Replica> = drafts.iter().zip(shares).map(replica).collect();
    // Struct update would clone the old replicas.
    let head = Plan { replicas: Vec::new(), ..old.clone() };
    Some(Plan { replicas, ..head })
}

impl<'a> Free<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let gpus = cluster.nodes.iter().map(|node| (0..node.gpu_count).collect()).collect();
        let places = cluster.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        Self { cluster, gpus, places }
    }

    /// Takes the GPUs of a stage, if they are all there.
    fn take(&mut self, stage: &Stage) -> bool {
        let Some(&place) = self.places.get(stage.node.as_str()) else { return false };
        let gpus = &mut self.gpus[place];
        let is_there = self.cluster.node(NodeId::from(place)).gpu.name == stage.gpu_type
            && stage.gpus.iter().all(|gpu| gpus.contains(gpu));
        if is_there {
            gpus.retain(|gpu| !stage.gpus.contains(gpu));
        }
        is_there
    }

    /// Finds GPUs for all stages of a replica that lack them, or for none.
    fn fill(&mut self, draft: &mut Draft) -> bool {
        let (before, stages) = (self.gpus.clone(), draft.stages.clone());
        for (stage, _) in draft.stages.iter_mut().zip(&draft.missing).filter(|(_, missing)| **missing) {
            let degree = stage.gpus.len();
            let is_open = |&place: &usize| {
                self.gpus[place].len() >= degree && self.cluster.nodes[place].gpu.name == stage.gpu_type
            };
            // The node with the least room, so that whole nodes stay whole.
            let Some(place) = (0..self.gpus.len()).filter(is_open).min_by_key(|&place| self.gpus[place].len()) else {
                (self.gpus, draft.stages) = (before, stages);
                return false;
            };
            stage.node.clone_from(&self.cluster.nodes[place].name);
            stage.gpus = self.gpus[place].drain(..degree).collect();
        }
        draft.missing.fill(false);
        true
    }

    /// Frees the GPUs that a replica still has.
    fn release(&mut self, draft: &mut Draft) {
        for (stage, missing) in draft.stages.iter().zip(&mut draft.missing).filter(|(_, missing)| !**missing) {
            let gpus = &mut self.gpus[self.places[stage.node.as_str()]];
            gpus.extend(&stage.gpus);
            gpus.sort_unstable();
            *missing = true;
        }
    }
}

//! Neighbouring stages on different nodes, so that a loss doesn't take a stage and its copy.

use crate::plan::{Plan, Replica, Stage};
use std::collections::BTreeMap;

/// Groups of GPUs, by the name of their node.
type GroupsByNode = BTreeMap<String, Vec<Vec<u32>>>;

/// The plan with its stages on the same GPUs in another order, if fewer stages share a node with their neighbour so.
///
/// Only stages of one degree on one type of GPU change places. Stage by stage each goes to the node that has most such groups of
/// GPUs left, but for that of the stage before it, and for the last stage that of the first.
pub(super) fn apart(plan: &Plan) -> Plan {
    let mut left: BTreeMap<(String, usize), GroupsByNode> = BTreeMap::new();
    for (_, stage) in plan.stages() {
        left.entry(kind(stage)).or_default().entry(stage.node.clone()).or_default().push(stage.gpus.clone());
    }
    let mut changed = plan.clone();
    for replica in &mut changed.replicas {
        let depth = replica.stages.len();
        for place in 0..depth {
            let before = place.checked_sub(1).map(|before| replica.stages[before].node.clone());
            let first = (place + 1 == depth && depth > 2).then(|| replica.stages[0].node.clone());
            let stage = &mut replica.stages[place];
            let nodes = left.entry(kind(stage)).or_default();
            let is_neighbour = |node: &String| before.as_ref() == Some(node) || first.as_ref() == Some(node);
            let most = |apart: bool| {
                let has_some = nodes.iter().filter(|(_, groups)| !groups.is_empty());
                let free = has_some.filter(|(node, _)| !apart || !is_neighbour(node));
                free.rev().max_by_key(|(_, groups)| groups.len()).map(|(node, _)| node.clone())
            };
            let Some(node) = most(true).or_else(|| most(false)) else { return plan.clone() };
            let Some(gpus) = nodes.get_mut(&node).filter(|groups| !groups.is_empty()).map(|groups| groups.remove(0))
            else {
                return plan.clone();
            };
            (stage.node, stage.gpus) = (node, gpus);
        }
    }
    if shared(&changed) < shared(plan) { changed } else { plan.clone() }
}

fn kind(stage: &Stage) -> (String, usize) {
    (stage.gpu_type.clone(), stage.gpus.len())
}

/// How many stages are on the node of the stage that holds their copy.
fn shared(plan: &Plan) -> usize {
    let of_replica = |replica: &Replica| {
        let depth = replica.stages.len();
        let node = |place: usize| &replica.stages[place % depth].node;
        (0..depth).filter(|&place| depth > 1 && node(place) == node(place + 1)).count()
    };
    plan.replicas.iter().map(of_replica).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::plan;

    /// Stages on GPUs counted from the first of each node.
    fn on(nodes: &[&[&str]]) -> Plan {
        let stages: Vec<Vec<(&str, u32, u32)>> = nodes
            .iter()
            .map(|replica| replica.iter().zip(0..).map(|(node, layer)| (*node, layer, 1)).collect())
            .collect();
        let mut plan = plan(1, &stages.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut used: BTreeMap<String, u32> = BTreeMap::new();
        for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
            let next = used.entry(stage.node.clone()).or_default();
            stage.gpus = vec![*next];
            *next += 1;
        }
        plan
    }

    fn nodes(plan: &Plan) -> Vec<Vec<&str>> {
        let names: Vec<&str> = plan.stages().map(|(_, stage)| stage.node.as_str()).collect();
        let mut names = names.into_iter();
        plan.replicas.iter().map(|replica| names.by_ref().take(replica.stages.len()).collect()).collect()
    }

    #[test]
    fn neighbours_change_places() {
        assert_eq!(nodes(&apart(&on(&[&["a", "a", "b", "b"]]))), [["a", "b", "a", "b"]]);
        // Pipelines within nodes become pipelines across them, each GPU in one stage.
        let crossed = apart(&on(&[&["a", "a"], &["b", "b"]]));
        assert_eq!(nodes(&crossed), [["a", "b"], ["a", "b"]]);
        let mut gpus: Vec<_> = crossed.stages().map(|(_, stage)| (stage.node.clone(), stage.gpus[0])).collect();
        gpus.sort();
        assert_eq!(gpus, [("a", 0), ("a", 1), ("b", 0), ("b", 1)].map(|(node, gpu)| (node.to_owned(), gpu)));
    }

    #[test]
    fn where_it_cannot_be_better_it_stays() {
        for stages in [&["a", "a", "a"][..], &["a", "b", "c"]] {
            assert_eq!(apart(&on(&[stages])), on(&[stages]));
        }
        // Other degrees don't change places.
        let mut unlike = on(&[&["a", "a", "b", "b"]]);
        (unlike.replicas[0].stages[0].gpus, unlike.replicas[0].stages[1].gpus) = (vec![0, 1], vec![2]);
        assert_eq!(apart(&unlike).replicas[0].stages[0].gpus, [0, 1]);
    }
}

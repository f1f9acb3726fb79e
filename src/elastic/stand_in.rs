//! Neighbours that go on in the place of lost stages.

use crate::plan::{Plan, ScheduleKind};

/// The plan in which each lost stage's layers are its predecessor's, which holds a copy of them; `None` where nothing is
/// lost, where a stage and its predecessor are, or the first stage of a pipeline: the last one holds its copy, but one stage
/// can't have both ends. Whether there is memory for that is another question.
pub(super) fn stand_in(plan: &Plan, is_up: impl Fn(&str) -> bool) -> Option<Plan> {
    let is_lost = |stage: &crate::plan::Stage| !is_up(&stage.node);
    if plan.schedule != ScheduleKind::Redundant || !plan.stages().any(|(_, stage)| is_lost(stage)) {
        return None;
    }
    let mut changed = plan.clone();
    for (replica, before) in changed.replicas.iter_mut().zip(&plan.replicas) {
        replica.stages.clear();
        for (place, stage) in before.stages.iter().enumerate() {
            if !is_lost(stage) {
                replica.stages.push(stage.clone());
                continue;
            }
            if is_lost(before.stages.get(place.checked_sub(1)?)?) {
                return None;
            }
            replica.stages.last_mut()?.num_layers += stage.num_layers;
        }
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::plan;

    fn redundant() -> Plan {
        let plan = plan(1, &[&[("a", 0, 2), ("b", 2, 3), ("c", 5, 1)], &[("d", 0, 3), ("e", 3, 3)]]);
        Plan { schedule: ScheduleKind::Redundant, ..plan }
    }

    fn after(lost: &[&str]) -> Option<Vec<Vec<(String, u32, u32)>>> {
        let changed = stand_in(&redundant(), |node| !lost.contains(&node))?;
        let stages = |replica: &crate::plan::Replica| {
            replica.stages.iter().map(|stage| (stage.node.clone(), stage.first_layer, stage.num_layers)).collect()
        };
        Some(changed.replicas.iter().map(stages).collect())
    }

    #[test]
    fn predecessors_take_over() {
        let expect = |stages: &[(&str, u32, u32)]| {
            stages.iter().map(|(node, first, count)| ((*node).to_owned(), *first, *count)).collect::<Vec<_>>()
        };
        let pipeline = expect(&[("a", 0, 5), ("c", 5, 1)]);
        assert_eq!(after(&["b"]), Some(vec![pipeline.clone(), expect(&[("d", 0, 3), ("e", 3, 3)])]));
        assert_eq!(after(&["b", "e"]), Some(vec![pipeline, expect(&[("d", 0, 6)])]));
    }

    #[test]
    fn neighbours_and_first_stages_have_nobody() {
        assert_eq!(after(&["b", "c"]), None);
        assert_eq!(after(&["d"]), None);
        assert_eq!(after(&[]), None);
        assert_eq!(stand_in(&plan(1, &[&[("a", 0, 2), ("b", 2, 3)]]), |node| node != "b"), None);
    }
}

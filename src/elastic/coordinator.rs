//! Where the coordinator runs, which tells everybody what to do: on the node that is there for longest.
//!
//! It leaves a node under notice beforehand. Where its node is lost under it, another one takes its part over after a while, and
//! nothing can be changed until then; training that needs no change goes on.

use super::events::MembershipChange;
use crate::units::SimTime;

/// The coordinator's node, and who comes after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Coordinator {
    /// Nodes that are there, the first that came first, and whether each is under notice.
    nodes: Vec<(String, bool)>,
    /// Its node, if any.
    on: Option<String>,
    /// When it is there again.
    back: SimTime,
}

impl Coordinator {
    /// Takes in what changed; a lost coordinator is there again `takeover` later.
    pub(super) fn apply(&mut self, at: SimTime, change: &MembershipChange, takeover: SimTime) {
        self.nodes.retain(|(node, _)| !change.lost.contains(node));
        self.nodes.extend(change.joined.iter().map(|node| (node.name.clone(), false)));
        for (node, is_warned) in &mut self.nodes {
            *is_warned = (*is_warned || change.noticed.contains(node)) && !change.spared.contains(node);
        }
        let is_lost = self.on.as_ref().is_some_and(|on| change.lost.contains(on));
        if is_lost {
            self.back = at.saturating_add(takeover);
        }
        let stays = self.on.as_ref().is_some_and(|on| self.nodes.iter().any(|(node, warned)| node == on && !warned));
        if !stays {
            let next = self.nodes.iter().find(|(_, is_warned)| !is_warned).or(self.nodes.first());
            self.on = next.map(|(node, _)| node.clone());
        }
    }

    /// How long nobody can be told anything.
    pub(super) fn wait(&self, at: SimTime) -> SimTime {
        self.back.saturating_sub(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::cluster;

    const TAKEOVER: SimTime = SimTime(15_000_000_000);

    fn at(seconds: u64) -> SimTime {
        SimTime::SECOND * seconds
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn began() -> Coordinator {
        let mut coordinator = Coordinator::default();
        let joined = cluster(&["b", "a", "c"]).nodes;
        coordinator.apply(at(0), &MembershipChange { joined, ..MembershipChange::default() }, TAKEOVER);
        coordinator
    }

    #[test]
    fn the_loss_of_its_node_takes_a_while_and_that_of_another_none() {
        let mut coordinator = began();
        assert_eq!(coordinator.wait(at(0)), SimTime::ZERO);
        let lost = |nodes: &[&str]| MembershipChange { lost: names(nodes), ..MembershipChange::default() };
        coordinator.apply(at(10), &lost(&["a"]), TAKEOVER);
        assert_eq!(coordinator.wait(at(10)), SimTime::ZERO);
        coordinator.apply(at(20), &lost(&["b"]), TAKEOVER);
        assert_eq!((coordinator.wait(at(20)), coordinator.wait(at(30))), (TAKEOVER, at(5)));
        // Now it is on `c`.
        coordinator.apply(at(60), &lost(&["c"]), TAKEOVER);
        assert_eq!(coordinator.wait(at(60)), TAKEOVER);
    }

    #[test]
    fn a_notice_is_time_to_hand_over() {
        let mut coordinator = began();
        let noticed = MembershipChange { noticed: names(&["b"]), ..MembershipChange::default() };
        coordinator.apply(at(10), &noticed, TAKEOVER);
        coordinator.apply(at(40), &MembershipChange { lost: names(&["b"]), ..MembershipChange::default() }, TAKEOVER);
        assert_eq!(coordinator.wait(at(40)), SimTime::ZERO);
    }
}

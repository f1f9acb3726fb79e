//! Who is up: the checks that every reader of events shares.

use super::cells::Place;
use super::error::{TraceError, shown};
use crate::units::SimTime;
use std::collections::HashMap;

/// The nodes seen so far, while the rows of a file are walked in order of time.
pub(super) struct Membership {
    nodes: HashMap<String, Node>,
}

/// What is known of a node that was up at least once.
#[derive(Debug)]
pub(super) struct Node {
    /// Whether it is up now.
    is_up: bool,
    /// The line of its last change.
    line: u64,
    /// When it last came up.
    pub up_time: SimTime,
    /// Whether it has been warned since.
    pub is_warned: bool,
}

impl Membership {
    pub fn new() -> Self {
        Self { nodes: HashMap::new() }
    }

    /// `name` comes up; true if it had been up before.
    pub fn up(&mut self, place: Place, name: &str, time: SimTime) -> Result<bool, TraceError> {
        let node = Node { is_up: true, line: place.line, up_time: time, is_warned: false };
        match self.nodes.insert(name.to_owned(), node) {
            Some(old) if old.is_up => Err(TraceError::UpTwice {
                file: place.file.to_owned(),
                line: place.line,
                column: place.column.into(),
                node: shown(name),
                since_line: old.line,
            }),
            old => Ok(old.is_some()),
        }
    }

    /// `name` is warned by a row with the event `event`.
    pub fn notice(&mut self, place: Place, name: &str, event: &str) -> Result<(), TraceError> {
        self.node_up(place, name, event)?.is_warned = true;
        Ok(())
    }

    /// The notice of `name` is void by a row with the event `event`.
    pub fn cancelled(&mut self, place: Place, name: &str, event: &str) -> Result<(), TraceError> {
        let is_warned = &mut self.node_up(place, name, event)?.is_warned;
        if !std::mem::take(is_warned) {
            let hint = "leave the row out, or give the node a row with the event `notice` before";
            return Err(place.wrong("a node under notice", &shown(name), hint));
        }
        Ok(())
    }

    /// `name` goes down by a row with the event `event`; what was known of it until now.
    pub fn down(&mut self, place: Place, name: &str, event: &str) -> Result<&Node, TraceError> {
        let node = self.node_up(place, name, event)?;
        node.is_up = false;
        node.line = place.line;
        Ok(node)
    }

    fn node_up(&mut self, place: Place, name: &str, event: &str) -> Result<&mut Node, TraceError> {
        let not_up = |down_line| TraceError::NotUp {
            file: place.file.to_owned(),
            line: place.line,
            column: place.column.into(),
            node: shown(name),
            event: shown(event),
            down_line,
        };
        match self.nodes.get_mut(name) {
            Some(node) if node.is_up => Ok(node),
            Some(node) => Err(not_up(Some(node.line))),
            None => Err(not_up(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64) -> Place<'static> {
        Place { file: "f", line, column: "node" }
    }

    #[test]
    fn a_node_comes_is_warned_goes_and_comes_again() {
        let mut membership = Membership::new();
        assert!(!membership.up(at(1), "a", SimTime(5)).unwrap());
        membership.notice(at(2), "a", "notice").unwrap();
        let node = membership.down(at(3), "a", "down").unwrap();
        assert!(node.is_warned && node.up_time == SimTime(5));
        assert!(membership.up(at(4), "a", SimTime(9)).unwrap());
        assert!(!membership.down(at(5), "a", "down").unwrap().is_warned);
    }

    #[test]
    fn impossible_stories_name_both_lines() {
        let mut membership = Membership::new();
        membership.up(at(1), "a", SimTime::ZERO).unwrap();
        let message = membership.up(at(2), "a", SimTime::ZERO).unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains("`a`, up since line 1\nhint:"), "{message}");

        let message = membership.down(at(3), "b", "removed").unwrap_err().to_string();
        assert!(message.contains("event `removed`, found `b`, which never came up\nhint:"), "{message}");

        let mut membership = Membership::new();
        membership.up(at(1), "a", SimTime::ZERO).unwrap();
        membership.down(at(2), "a", "down").unwrap();
        let message = membership.notice(at(3), "a", "notice").unwrap_err().to_string();
        assert!(message.contains("`a`, which went down in line 2\nhint:"), "{message}");
    }
}

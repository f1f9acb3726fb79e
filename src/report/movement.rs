//! What a change of plan moves, for people and for programs.

use crate::planner::replan::{Movement, Replanned};
use crate::units::{format_bytes, format_seconds};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most nodes that are named.
const MOST_NAMED: usize = 12;

/// What moves, in a few lines: how much in all, and to which nodes.
pub fn movement_text(replanned: &Replanned) -> String {
    let Movement { kept_bytes, moved_bytes, restored_bytes, seconds, nodes } = &replanned.movement;
    let mut text = format!(
        "State: {} stays, {} moves between nodes, {} comes from storage; {} until the last node has its own\n",
        format_bytes(*kept_bytes),
        format_bytes(*moved_bytes),
        format_bytes(*restored_bytes),
        format_seconds(*seconds),
    );
    for node in nodes.iter().take(MOST_NAMED) {
        let (Some(first), Some(last)) = (node.blocks.first(), node.blocks.last()) else { continue };
        let blocks = if node.blocks.len() == 1 { first.to_string() } else { format!("{first} … {last}") };
        let count = node.blocks.len();
        // Writing to a string can't fail.
        let _ = writeln!(text, "  {} gets {}: {count} blocks, {blocks}", node.node, format_bytes(node.bytes));
    }
    if nodes.len() > MOST_NAMED {
        let _ = writeln!(text, "  and {} nodes more", nodes.len() - MOST_NAMED);
    }
    text
}

/// What moves, as JSON: `kept_bytes`, `moved_bytes`, `restored_bytes`, `seconds`, and by node its blocks and bytes.
pub fn movement_json(replanned: &Replanned) -> Value {
    let Movement { kept_bytes, moved_bytes, restored_bytes, seconds, nodes } = &replanned.movement;
    let node = |node: &crate::planner::replan::NodeMovement| json!({ "node": node.node, "blocks": node.blocks, "bytes": node.bytes });
    json!({
        "kept_bytes": kept_bytes,
        "moved_bytes": moved_bytes,
        "restored_bytes": restored_bytes,
        "seconds": seconds,
        "expected_iterations": replanned.expected_iterations,
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Block;
    use crate::planner::replan::NodeMovement;
    use crate::report::fixture;

    #[test]
    fn names_what_each_node_gets() {
        let node = NodeMovement { node: "a".to_owned(), blocks: vec![Block::Embedding, Block::Head], bytes: 2_000_000 };
        let movement = Movement {
            kept_bytes: 5_000_000_000,
            moved_bytes: 2_000_000,
            restored_bytes: 0,
            seconds: 1.5,
            nodes: vec![node],
        };
        let plan = fixture::planned(false).plan;
        let replanned = Replanned { plan, iteration_s: 1.0, movement, expected_iterations: 10.0 };
        let text = movement_text(&replanned);
        assert!(text.contains("2.0 MB moves") && text.contains("a gets 2.0 MB: 2 blocks, embedding … head"), "{text}");
        assert_eq!(movement_json(&replanned)["nodes"][0]["bytes"], 2_000_000);
    }
}

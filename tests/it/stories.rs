//! Stories of nodes that come and go, for properties of replays.

use std::fmt::Write as _;

/// What happens to one of the nodes: its number, seconds since the last event, and what, if it can.
pub type Step = (usize, u64, u8);

/// The rows of a canonical trace for a story that holds together, over nodes `a`, `b` … of these types and numbers of GPUs.
pub fn rows(steps: &[Step], nodes: &[(&str, u32)]) -> String {
    let (mut up, mut now, mut text) = (vec![false; nodes.len()], 0, String::new());
    for &(node, after, what) in steps {
        now += after;
        let name = char::from(b'a' + node as u8);
        if !up[node] {
            let (gpu, count) = nodes[node];
            writeln!(text, "{now},up,{name},{gpu},{count}").unwrap();
            up[node] = true;
        } else if what == 0 {
            writeln!(text, "{now},notice,{name},,").unwrap();
        } else {
            writeln!(text, "{now},down,{name},,").unwrap();
            up[node] = false;
        }
    }
    text
}

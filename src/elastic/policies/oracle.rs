//! What nobody can beat.

use super::Policy;

/// Knows the trace: at any time it runs the fastest plan that anybody has for the nodes that are up, and no change of plan
/// costs it anything. `replay` has the proof that no policy counts more iterations on the same trace.
pub(super) fn policy() -> Policy {
    Policy {
        name: "oracle",
        summary: "the upper bound: the fastest plan for each moment, changes for free",
        foresight: true,
        ..super::autohet::policy()
    }
}

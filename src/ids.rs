//! Identifiers: newtypes, so that a stage is never passed for a rank.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("more ids than fit in 32 bits"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A global rank: one GPU taking part in the plan.
    Rank, "rank "
);
id!(
    /// A data-parallel replica: one pipeline that holds the whole model.
    ReplicaId, "replica "
);
id!(
    /// A pipeline stage within its replica, counted from the input side.
    StageId, "stage "
);
id!(
    /// A model chunk of a stage, counted from the input side: the first one but under the interleaved schedule.
    ChunkId, "chunk "
);
id!(
    /// A transformer layer of the model, counted from the input side.
    LayerId, "layer "
);
id!(
    /// A micro batch within its replica and iteration.
    MicroBatch, "micro batch "
);
id!(
    /// A node's place in a [`Cluster`](crate::cluster::Cluster). Names identify nodes across clusters; this id doesn't.
    NodeId, "node "
);

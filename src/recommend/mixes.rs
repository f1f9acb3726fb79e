//! The mixes that a budget pays for.

use crate::cluster::GpuSpec;
use std::sync::Arc;

/// Most mixes that are planned for one answer.
pub const MOST_MIXES: usize = 5000;

/// Equal nodes that can be rented.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Type of their GPUs.
    pub gpu: Arc<GpuSpec>,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Most nodes there are.
    pub most_nodes: u32,
    /// Price of one GPU.
    pub usd_per_gpu_hour: f64,
}

impl Offer {
    /// Price of a node.
    pub fn usd_per_node_hour(&self) -> f64 {
        self.usd_per_gpu_hour * f64::from(self.gpus_per_node)
    }
}

/// Every mix that costs no more than this an hour, numbers of nodes by offer; how many there are at least, where they are
/// more than [`MOST_MIXES`].
pub fn affordable(offers: &[Offer], budget_usd_per_hour: f64) -> Result<Vec<Vec<u32>>, usize> {
    // Prices are decimal fractions: a node too few for the last bit of a sum would be a node too few.
    let budget = budget_usd_per_hour * (1.0 + 1e-9);
    let mut mixes: Vec<(Vec<u32>, f64)> = vec![(Vec::new(), 0.0)];
    for offer in offers {
        let mut longer = Vec::new();
        for (mix, usd) in &mixes {
            for count in 0..=offer.most_nodes {
                let usd = usd + f64::from(count) * offer.usd_per_node_hour();
                if usd > budget {
                    break;
                }
                longer.push(([mix.as_slice(), &[count]].concat(), usd));
                if longer.len() > 2 * MOST_MIXES {
                    return Err(longer.len());
                }
            }
        }
        mixes = longer;
    }
    let mixes: Vec<Vec<u32>> =
        mixes.into_iter().map(|(mix, _)| mix).filter(|mix| mix.iter().any(|count| *count > 0)).collect();
    if mixes.len() > MOST_MIXES { Err(mixes.len()) } else { Ok(mixes) }
}

/// A mix in the notation of `--cluster`.
pub(super) fn notation(offers: &[Offer], counts: &[u32]) -> String {
    let parts = offers.iter().zip(counts).filter(|(_, count)| **count > 0);
    let parts = parts.map(|(offer, count)| format!("{count}x{}x{}", offer.gpus_per_node, offer.gpu.name));
    parts.collect::<Vec<_>>().join("+")
}

//! Bandwidths that Sailor (SOSP'25, MIT licence) measured between nodes of 4 GPUs in one zone.

use crate::cost::CostError;

/// Bandwidth in GB/s by the size of a message: `a x² + b x + c` with `x = log₂(bytes / 10⁶)`. The judge doesn't mind sizes
/// outside of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve(f64, f64, f64);

/// A GPU type, and its curves with 1, 2 and 4 pairs of GPUs that send at once.
struct Links {
    gpu: &'static str,
    by_pairs: [Curve; 3],
}

/// The faster type first.
const LINKS: [Links; 2] = [
    Links {
        gpu: "A100-40",
        by_pairs: [
            Curve(-0.002_441_423_1, 0.140_862_733_9, 1.116_822_757_1),
            Curve(-0.007_196_511_7, 0.231_685_299_2, 2.112_713_799_5),
            Curve(-0.036_678_955, 0.477_328_204_4, 4.559_261_007_2),
        ],
    },
    Links {
        gpu: "V100-16",
        by_pairs: [
            Curve(0.004_408_380_6, 0.046_579_932_2, 0.879_357_471_2),
            Curve(-0.011_532_109_3, 0.105_617_668_7, 1.775_803_408_7),
            Curve(-0.008_450_897_6, 0.323_454_078_7, 3.446_937_175_3),
        ],
    },
];

impl Curve {
    /// Seconds of a message of so many bytes; none for none.
    pub(super) fn seconds(self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        let x = (bytes / 1e6).log2();
        bytes / 1e9 / (self.0 * x * x + self.1 * x + self.2)
    }
}

/// The curve between nodes of one type with so many pairs.
pub(super) fn own(gpu: &str, pairs: u32) -> Result<Curve, CostError> {
    Ok(LINKS[place(gpu)?].by_pairs[index(pairs)])
}

/// The curve from stages of so many GPUs to others: that of the side with fewer pairs, of equals that of the slower type.
pub(super) fn between(from: &str, from_gpus: u32, to: &str, to_gpus: u32) -> Result<Curve, CostError> {
    let (a, b) = ((index(from_gpus), place(from)?), (index(to_gpus), place(to)?));
    let (pairs, gpu) = match a.0.cmp(&b.0) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Equal => (a.0, a.1.max(b.1)),
        std::cmp::Ordering::Greater => b,
    };
    Ok(LINKS[gpu].by_pairs[pairs])
}

/// Place of the curve with so many pairs, at most four: the nodes' GPUs.
fn index(pairs: u32) -> usize {
    pairs.clamp(1, 4).ilog2() as usize
}

fn place(gpu: &str) -> Result<usize, CostError> {
    LINKS.iter().position(|links| links.gpu == gpu).ok_or_else(|| {
        let known: Vec<&str> = LINKS.iter().map(|links| links.gpu).collect();
        CostError::Judge {
            problem: format!("Sailor's judge knows no links of `{gpu}`"),
            hint: format!("it knows those of {}", known.join(" and ")),
        }
    })
}

//! What matrix products and element-wise operations take on a GPU.
//!
//! A product is cut into tiles, which the multiprocessors take in waves: the last wave is rarely full, and tiles at the edge
//! of the result aren't either. Of several shapes of tiles, smaller ones at a lower rate, and of splits of the sum where there
//! are few tiles, the fastest is taken, as libraries do. A product is never faster than its operands pass through memory.
//!
//! How the constants were got: one set for all GPU types, so that a type without measurements is priced from its datasheet.
//!
//! - The share of the peak (0.80) and what a tile takes beside its sum (as long as 32 terms) are those at which heads of 51,200
//!   words on a V100-32 come out best (80 operator profiles of Aceso, in the `SuperScaler` repository: hidden 1024 to 5120,
//!   sequence 2048, micro batch 1 to 8, t 1 to 8). Best rates of ml-engineering's table and of transformers-benchmarks are
//!   0.73 to 0.87 of the peak.
//! - Rates of smaller tiles, relative to large ones: an estimate from how often operands are loaded.
//! - 0.85 of the memory's bandwidth for element-wise operations: an assumption, usual in stream benchmarks.
//!
//! Errors of the fit on those 80 profiles, mean and 90th percentile of passes of 3 ms or more: layer forward 5.0 % and 8.4 %,
//! backward 3.7 % and 6.7 %, head 2.2 % and 4.6 %. What is in force differs from the fit: the host's time doesn't add to the
//! device's, heads are put together, and gradients accumulated. Over the 59 profiles whose forward pass takes 5 ms or more,
//! median and 90th percentile: both passes 4.3 % and 13 %, head 3.2 % and 7.2 %.

use super::blocks::{Pass, Work};
use crate::cluster::GpuSpec;
use crate::model::{MatrixProduct, Precision};

/// Rates of one GPU type in one precision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roofline {
    /// Of one multiprocessor.
    flops_per_s: f64,
    multiprocessors: f64,
    stream_bytes_per_s: f64,
    element_bytes: f64,
}

/// Terms of a sum that take as long as what surrounds a tile: loading the first operands, storing the result.
const TERMS_BESIDE: f64 = 32.0;
/// Rows, columns and relative rate of tiles.
const TILES: [(f64, f64, f64); 8] = [
    (256.0, 128.0, 1.0),
    (128.0, 256.0, 1.0),
    (128.0, 128.0, 0.93),
    (256.0, 64.0, 0.85),
    (64.0, 256.0, 0.85),
    (128.0, 64.0, 0.80),
    (64.0, 128.0, 0.80),
    (64.0, 64.0, 0.62),
];
/// Parts into which sums may be split where tiles are few, and the shortest part.
const SPLITS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const SHORTEST_PART: f64 = 256.0;
/// How nearly a pass takes the larger of what host and device need: layers aren't quite alike, so that at equal times they
/// wait for each other a little (9 %).
const SHARPNESS: i32 = 8;
/// Bytes of a partial sum, written and read.
const PARTIAL_BYTES: f64 = 8.0;

impl Roofline {
    pub(super) fn new(gpu: &GpuSpec, precision: Precision) -> Self {
        let flops_per_s = match precision {
            Precision::Fp32 => gpu.fp32_flops_per_s,
            Precision::Fp16 => gpu.fp16_flops_per_s,
            Precision::Bf16 => gpu.bf16_flops_per_s.unwrap_or(gpu.fp32_flops_per_s),
        };
        let multiprocessors = f64::from(gpu.multiprocessors.max(1));
        Self {
            flops_per_s: flops_per_s * gpu.product_share / multiprocessors,
            multiprocessors,
            stream_bytes_per_s: gpu.hbm_bytes_per_s * gpu.stream_share,
            element_bytes: precision.bytes() as f64,
        }
    }

    /// Seconds of forward and backward, which has two products for each of the forward's, without their collectives.
    ///
    /// The host issues kernels ahead of the GPU, collectives among them, so that the slower of both sets the pace: what
    /// the GPUs spend on collectives is hidden where they would else wait for the host.
    pub(super) fn passes_s(&self, work: &Work, collectives_s: (f64, f64)) -> (f64, f64) {
        let ((forward_s, _), (backward_s, _)) = self.parts_s(work);
        let pass_s = |products_s: f64, pass: &Pass, collectives_s: f64| {
            let device_s = products_s + self.stream_s(pass.stream_bytes) + collectives_s;
            let both_s = (device_s.powi(SHARPNESS) + pass.host_s.powi(SHARPNESS)).powf(1.0 / f64::from(SHARPNESS));
            both_s - collectives_s
        };
        (pass_s(forward_s, &work.forward, collectives_s.0), pass_s(backward_s, &work.backward, collectives_s.1))
    }

    /// Of both passes, the seconds of products and of everything else that the device does.
    pub(super) fn parts_s(&self, work: &Work) -> ((f64, f64), (f64, f64)) {
        let forward_s: f64 = work.products.iter().map(|product| self.product_s(product)).sum();
        let backward_s: f64 = work.products.iter().map(|product| self.gradients_s(product)).sum();
        let backward_s = backward_s + self.product_s(&work.again);
        let (forward, backward) = (&work.forward, &work.backward);
        ((forward_s, self.stream_s(forward.stream_bytes)), (backward_s, self.stream_s(backward.stream_bytes)))
    }

    /// The dense products' gradients of weights, as a share of the backward pass.
    pub(super) fn weight_gradients_share(&self, work: &Work) -> f64 {
        let dense = work.products.iter().filter(|product| !product.attention_core);
        let dense_s: f64 = dense.map(|product| self.product_s(product)).sum();
        let products_s: f64 = work.products.iter().map(|product| self.product_s(product)).sum();
        dense_s / (2.0 * products_s + self.stream_s(work.backward.stream_bytes))
    }

    /// The attention core's part of the forward pass.
    pub(super) fn core_s(&self, work: &Work) -> f64 {
        let core = work.products.iter().filter(|product| product.attention_core);
        core.map(|product| self.product_s(product)).sum::<f64>() + self.stream_s(work.core_stream_bytes)
    }

    /// Seconds to read or write so many bytes in element-wise operations.
    pub(super) fn stream_s(&self, bytes: f64) -> f64 {
        bytes / self.stream_bytes_per_s
    }

    fn product_s(&self, product: &MatrixProduct) -> f64 {
        let MatrixProduct { count, m, n, k, .. } = *product;
        if count <= 0.0 || m <= 0.0 || n <= 0.0 || k <= 0.0 {
            return 0.0;
        }
        let of_tiles = |&(rows, columns, rate): &(f64, f64, f64)| {
            let tiles = count * (m / rows).ceil() * (n / columns).ceil();
            let of_split = |&parts: &f64| {
                if parts > 1.0 && (tiles > self.multiprocessors || k / parts < SHORTEST_PART) {
                    return f64::INFINITY;
                }
                let waves = (tiles * parts / self.multiprocessors).ceil();
                let tile_s = 2.0 * rows * columns * (k / parts + TERMS_BESIDE) / (self.flops_per_s * rate);
                let partial_bytes = if parts > 1.0 { parts * count * m * n * PARTIAL_BYTES } else { 0.0 };
                waves * tile_s + self.stream_s(partial_bytes)
            };
            SPLITS.iter().map(of_split).fold(f64::INFINITY, f64::min)
        };
        let fastest_s = TILES.iter().map(of_tiles).fold(f64::INFINITY, f64::min);
        fastest_s.max(self.stream_s(product.elements() * self.element_bytes))
    }

    /// The two products of the backward pass: the gradients of both operands.
    fn gradients_s(&self, product: &MatrixProduct) -> f64 {
        let MatrixProduct { m, n, k, .. } = *product;
        let of_input = MatrixProduct { m, n: k, k: n, ..*product };
        let of_weight = MatrixProduct { m: k, n, k: m, ..*product };
        self.product_s(&of_input) + self.product_s(&of_weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    fn product(m: f64, n: f64, k: f64) -> MatrixProduct {
        MatrixProduct { count: 1.0, m, n, k, attention_core: false }
    }

    #[test]
    fn a_large_product_runs_at_the_share_of_the_peak_that_benchmarks_reach() {
        let a100 = GpuSpec::lookup("A100-80").unwrap();
        let large = product(8192.0, 8192.0, 8192.0);
        let rate = large.flops() / Roofline::new(&a100, Precision::Bf16).product_s(&large);
        // transformers-benchmarks measures 230 Tflop/s on large squares, ml-engineering 271 at the best shape.
        assert!((230e12..271e12).contains(&rate), "{rate:e}");
    }

    /// 64 x 27 large tiles on 108 multiprocessors are 16 waves to the tile. 64 x 9 would be 5.3, which take six; twice as many
    /// of half the size, at 93 % of the rate, are 10.7 and take eleven: less.
    #[test]
    fn the_last_wave_is_paid_in_full() {
        let roofline = Roofline::new(&GpuSpec::lookup("A100-80").unwrap(), Precision::Fp16);
        let [narrow, wide] = [2304.0, 6912.0].map(|n| roofline.product_s(&product(8192.0, n, 6144.0)));
        assert_relative_eq!(wide / narrow, 16.0 / (5.5 / 0.93), max_relative = 1e-9);
    }

    #[test]
    fn a_thin_product_runs_at_memory_speed() {
        let t4 = GpuSpec::lookup("T4").unwrap();
        let thin = product(1.0, 4096.0, 4096.0);
        let bytes = 2.0 * (4096.0 + 4096.0 * 4096.0 + 4096.0);
        let roofline = Roofline::new(&t4, Precision::Fp16);
        assert_relative_eq!(roofline.product_s(&thin), bytes / (0.69 * 320e9), max_relative = 1e-12);
    }

    #[test]
    fn no_product_takes_no_time() {
        let roofline = Roofline::new(&GpuSpec::lookup("T4").unwrap(), Precision::Fp32);
        assert!(roofline.product_s(&MatrixProduct::default()) <= 0.0);
    }

    #[test]
    fn the_host_shows_only_where_the_device_has_little_to_do() {
        let roofline = Roofline::new(&GpuSpec::lookup("T4").unwrap(), Precision::Fp16);
        let work = |stream_bytes| {
            let pass = Pass { stream_bytes, host_s: 1e-3 };
            Work { forward: pass, backward: pass, ..Work::default() }
        };
        assert_relative_eq!(roofline.passes_s(&work(0.0), (0.0, 0.0)).0, 1e-3, max_relative = 1e-9);
        let (busy, _) = roofline.passes_s(&work(0.69 * 320e9), (0.0, 0.0));
        assert_relative_eq!(busy, 1.0, max_relative = 1e-6);
        // Collectives of 0.9 ms fit into the time of the host, those of 1 s don't.
        let (short, long) = roofline.passes_s(&work(0.0), (0.9e-3, 1.0));
        assert_relative_eq!(short + 0.9e-3, 1e-3 * (1.0 + 0.9_f64.powi(8)).powf(0.125), max_relative = 1e-9);
        assert!(long < 1e-6);
    }
}

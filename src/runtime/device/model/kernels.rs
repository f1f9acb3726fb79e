//! Loops over numbers in host memory that take the place of chains of tensor operations, each of which would go through
//! memory on its own. They are written so that the compiler turns them into vector instructions, and run with the widest
//! that this CPU has.

// A loop gets wide instructions only with everything inlined that it calls.
#![allow(clippy::inline_always)]

use pulp::Arch;

/// Sums are kept in so many parts, so that vector instructions can add to all of them at once.
const LANES: usize = 16;

/// What keeps the division by the deviation finite, as in GPT-2 and LLaMA.
pub(super) const NORM_EPSILON: f32 = 1e-5;

/// Runs loops with the widest vector instructions that there are.
fn vectorised<R>(loops: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(loops)
}

/// The exponential, within 2e-7 of it in proportion; below -87 that of -87, as good as zero. Not-a-number stays what it
/// is.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Added to a number, it leaves the nearest integer in the lowest bits.
    const ROUNDS: f32 = 12_582_912.0;
    // The natural logarithm of two, with few enough bits that its product with a small integer is exact, and the rest.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDS;
    let power = shifted - ROUNDS;
    let rest = x - power * LN_2[0] - power * LN_2[1];
    let series = 1.0 / 720.0 + rest * (1.0 / 5040.0);
    let series = 1.0 / 24.0 + rest * (1.0 / 120.0 + rest * series);
    let series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * series)));
    series * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// The sum of what `of` makes of the entries of two equally long slices.
#[inline(always)]
fn sum2(a: &[f32], b: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a.remainder().iter().zip(b.remainder()).map(|(&a, &b)| of(a, b)).sum();
    for (a, b) in a.zip(b) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum += of(a, b);
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[inline(always)]
fn sum(a: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    sum2(a, a, |a, _| of(a))
}

/// The largest, or not-a-number if there is one.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b || a.is_nan() { a } else { b };
    let mut all = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let tail = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    for chunk in chunks {
        for (all, &value) in all.iter_mut().zip(chunk) {
            *all = larger(*all, value);
        }
    }
    all.into_iter().fold(tail, larger)
}

/// Adds a row to each row.
pub(super) fn add_row(values: &mut [f32], row: &[f32]) {
    vectorised(|| {
        for values in values.chunks_exact_mut(row.len()) {
            for (value, add) in values.iter_mut().zip(row) {
                *value += add;
            }
        }
    });
}

/// The sum of all rows.
pub(super) fn sum_rows(values: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0; width];
    vectorised(|| {
        for values in values.chunks_exact(width) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
    });
    sums
}

/// GELU in its tanh form is `x` times the logistic function of this, and that function's derivative.
#[inline(always)]
fn gate(x: f32) -> (f32, f32) {
    const SCALE: f32 = 1.595_769;
    const CUBE: f32 = 0.044_715;
    let square = x * x;
    let share = 1.0 / (1.0 + exp(-SCALE * x * (1.0 + CUBE * square)));
    (share, share * (1.0 - share) * SCALE * (1.0 + 3.0 * CUBE * square))
}

/// GELU of each entry.
pub(super) fn gelu(inputs: &[f32]) -> Vec<f32> {
    vectorised(|| inputs.iter().map(|&x| x * gate(x).0).collect())
}

/// The gradient by its input, in place of that by its output.
pub(super) fn gelu_backward(inputs: &[f32], gradients: &mut [f32]) {
    vectorised(|| {
        for (&x, gradient) in inputs.iter().zip(gradients) {
            let (share, slope) = gate(x);
            *gradient *= share + x * slope;
        }
    });
}

/// A norm's rows: how wide they are, and whether their mean is taken off.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormRows {
    pub(super) width: usize,
    pub(super) is_centred: bool,
}

impl NormRows {
    /// Mean, where it is taken off, and one by the deviation.
    #[inline(always)]
    fn moments(self, row: &[f32]) -> (f32, f32) {
        let share = (self.width as f32).recip();
        let mean = if self.is_centred { sum(row, |x| x) * share } else { 0.0 };
        let variance = sum(row, |x| (x - mean) * (x - mean)) * share;
        (mean, (variance + NORM_EPSILON).sqrt().recip())
    }

    /// The norm of each row; `bias` may be empty.
    pub(super) fn forward(self, inputs: &[f32], gain: &[f32], bias: &[f32]) -> Vec<f32> {
        let mut outputs = vec![0.0; inputs.len()];
        vectorised(|| {
            for (row, output) in inputs.chunks_exact(self.width).zip(outputs.chunks_exact_mut(self.width)) {
                let (mean, inverse) = self.moments(row);
                for ((output, x), gain) in output.iter_mut().zip(row).zip(gain) {
                    *output = (x - mean) * inverse * gain;
                }
                for (output, bias) in output.iter_mut().zip(bias) {
                    *output += bias;
                }
            }
        });
        outputs
    }

    /// The gradient by the inputs, in place of that by the outputs; returns those of gain and bias.
    pub(super) fn backward(self, inputs: &[f32], gain: &[f32], gradients: &mut [f32]) -> [Vec<f32>; 2] {
        let width = self.width;
        let [mut by_gain, mut by_bias] = [vec![0.0; width], vec![0.0; width]];
        let mut scaled = vec![0.0; width];
        let share = (width as f32).recip();
        vectorised(|| {
            for (row, gradient) in inputs.chunks_exact(width).zip(gradients.chunks_exact_mut(width)) {
                let (mean, inverse) = self.moments(row);
                for (by_bias, gradient) in by_bias.iter_mut().zip(&*gradient) {
                    *by_bias += gradient;
                }
                for ((by_gain, gradient), x) in by_gain.iter_mut().zip(&*gradient).zip(row) {
                    *by_gain += gradient * (x - mean) * inverse;
                }
                for ((scaled, gradient), gain) in scaled.iter_mut().zip(&*gradient).zip(gain) {
                    *scaled = gradient * gain;
                }
                let along_mean = if self.is_centred { sum(&scaled, |x| x) * share } else { 0.0 };
                let along_row = sum2(&scaled, row, |scaled, x| scaled * (x - mean) * inverse) * share;
                for ((gradient, scaled), x) in gradient.iter_mut().zip(&scaled).zip(row) {
                    *gradient = (scaled - along_mean - (x - mean) * inverse * along_row) * inverse;
                }
            }
        });
        [by_gain, by_bias]
    }
}

/// The rows of attention scores: as many entries in each as there are positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) positions: usize,
    /// What scores are multiplied by.
    pub(super) scale: f32,
    /// Whether a position sees itself and those before it only.
    pub(super) is_causal: bool,
}

impl Scores {
    #[inline(always)]
    fn seen(self, row: usize) -> usize {
        if self.is_causal { row % self.positions + 1 } else { self.positions }
    }

    /// The softmax of each row, in place of its scores.
    pub(super) fn softmax(self, scores: &mut [f32]) {
        vectorised(|| {
            for (index, row) in scores.chunks_exact_mut(self.positions).enumerate() {
                let (seen, hidden) = row.split_at_mut(self.seen(index));
                let largest = largest(seen);
                for score in &mut *seen {
                    *score = exp((*score - largest) * self.scale);
                }
                let share = sum(seen, |x| x).recip();
                for score in seen {
                    *score *= share;
                }
                hidden.fill(0.0);
            }
        });
    }

    /// The gradient by the scores, in place of that by their softmax.
    pub(super) fn backward(self, softmax: &[f32], gradients: &mut [f32]) {
        vectorised(|| {
            let rows = softmax.chunks_exact(self.positions).zip(gradients.chunks_exact_mut(self.positions));
            for (index, (row, gradient)) in rows.enumerate() {
                let seen = self.seen(index);
                let (row, (gradient, hidden)) = (&row[..seen], gradient.split_at_mut(seen));
                let along = sum2(row, gradient, |share, gradient| share * gradient);
                for (share, gradient) in row.iter().zip(&mut *gradient) {
                    *gradient = share * (*gradient - along) * self.scale;
                }
                hidden.fill(0.0);
            }
        });
    }
}

/// The largest of each row.
pub(super) fn largest_of_rows(values: &[f32], width: usize) -> Vec<f32> {
    vectorised(|| values.chunks_exact(width).map(largest).collect())
}

/// The exponential of each entry less its row's largest, and the sum of each row of them.
pub(super) fn exponentials(values: &[f32], width: usize, largest: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let mut exponentials = Vec::with_capacity(values.len());
    let mut sums = Vec::with_capacity(largest.len());
    vectorised(|| {
        for (row, &largest) in values.chunks_exact(width).zip(largest) {
            let first = exponentials.len();
            exponentials.extend(row.iter().map(|value| exp(value - largest)));
            sums.push(sum(&exponentials[first..], |x| x));
        }
    });
    (exponentials, sums)
}

/// Multiplies each row by a number of its own.
pub(super) fn scale_rows(values: &mut [f32], width: usize, factors: &[f32]) {
    vectorised(|| {
        for (row, factor) in values.chunks_exact_mut(width).zip(factors) {
            for value in row {
                *value *= factor;
            }
        }
    });
}

/// Of matrices of `rows × columns` vectors, the transposed ones.
pub(super) fn swap_middle(values: &[f32], [rows, columns, width]: [usize; 3]) -> Vec<f32> {
    let mut swapped = Vec::with_capacity(values.len());
    for matrix in values.chunks_exact(rows * columns * width) {
        for column in 0..columns {
            for row in matrix.chunks_exact(columns * width) {
                swapped.extend_from_slice(&row[column * width..][..width]);
            }
        }
    }
    swapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_that_of_the_standard_library() {
        for at in -8_700_i16..=8_700 {
            let x = f32::from(at) / 100.0;
            approx::assert_relative_eq!(f64::from(exp(x)), f64::from(x).exp(), max_relative = 4e-7);
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1e-37 && exp(-1e9) < 1e-37);
    }

    #[test]
    fn one_number_that_is_none_makes_its_whole_row_none() {
        let scores = Scores { positions: 40, scale: 0.5, is_causal: false };
        for place in [0, 17, 39] {
            let mut row = vec![1.0; 40];
            row[place] = f32::NAN;
            scores.softmax(&mut row);
            assert!(row.iter().all(|share| share.is_nan()));
            row[place] = f32::NAN;
            assert!(largest_of_rows(&row, 40)[0].is_nan());
        }
    }

    #[test]
    fn the_middle_is_swapped_within_each_matrix() {
        let values: Vec<f32> = (0..12_u8).map(f32::from).collect();
        // A column of vectors is a row of them.
        assert_eq!(swap_middle(&values, [3, 1, 2]), values);
        assert_eq!(swap_middle(&values, [2, 3, 2]), [0.0, 1.0, 6.0, 7.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 10.0, 11.0]);
    }
}

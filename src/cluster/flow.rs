//! What one flow between two nodes reaches, by the size of its messages.

use super::{ClusterError, NIC_GBIT_PER_S};
use crate::units::format_number;
use serde::{Deserialize, Serialize};

/// Bandwidth of a single flow out of a node, or into it: small messages don't fill a link, and one connection doesn't fill
/// an interface that several share.
///
/// `a x² + b x + c` gigabytes (10⁹) a second with `x = log₂(bytes / 10⁶)`, the form in which Sailor (SOSP'25) fits what it
/// measured. Such a parabola means nothing outside of the sizes that were measured: smaller messages get the bandwidth of
/// the smallest, larger ones that of the largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowCurve {
    /// `a`, `b` and `c`.
    pub gbyte_per_s: [f64; 3],
    /// Smallest message that was measured.
    pub from_bytes: f64,
    /// Largest message that was measured.
    pub to_bytes: f64,
}

impl FlowCurve {
    /// Bytes a second of a message of so many bytes, at most those of the nearest size that was measured.
    pub fn bytes_per_s(&self, bytes: f64) -> f64 {
        let [a, b, c] = self.gbyte_per_s;
        let x = (bytes.clamp(self.from_bytes, self.to_bytes) / 1e6).log2();
        (a * x * x + b * x + c) * 1e9
    }

    /// Refuses sizes that aren't in order and bandwidths that nobody has; `what` names the curve.
    pub fn check(&self, what: &str) -> Result<(), ClusterError> {
        let refuse = |what: String, value: f64, expected: String| {
            Err(ClusterError::Number { what, value: format_number(value), expected })
        };
        let sizes = 1.0..=1e15;
        if !sizes.contains(&self.from_bytes) {
            return refuse(format!("{what}.from_bytes"), self.from_bytes, "from 1 to 1e15".to_owned());
        }
        if !(self.from_bytes..=*sizes.end()).contains(&self.to_bytes) {
            let expected = format!("from `from_bytes`, {}, to 1e15", format_number(self.from_bytes));
            return refuse(format!("{what}.to_bytes"), self.to_bytes, expected);
        }
        // A parabola is least and greatest at an end of the interval or at its vertex.
        let [a, b, _] = self.gbyte_per_s;
        let vertex = 1e6 * (-b / (2.0 * a)).exp2();
        let inner = (self.from_bytes..=self.to_bytes).contains(&vertex).then_some(vertex);
        for bytes in [self.from_bytes, self.to_bytes].into_iter().chain(inner) {
            let gbit_per_s = self.bytes_per_s(bytes) * 8e-9;
            if !NIC_GBIT_PER_S.contains(&gbit_per_s) {
                let expected = format!(
                    "gigabits a second from {} to {} at every size measured",
                    NIC_GBIT_PER_S.start(),
                    NIC_GBIT_PER_S.end()
                );
                return refuse(format!("{what}.gbyte_per_s"), gbit_per_s, expected);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GB/s at 1 MB, 1.5 at 4 MB.
    const CURVE: FlowCurve = FlowCurve { gbyte_per_s: [0.0, 0.25, 1.0], from_bytes: 2.5e5, to_bytes: 4e6 };

    #[test]
    fn a_curve_is_followed_between_its_ends_and_held_outside() {
        for (bytes, gbyte_per_s) in
            [(1e6, 1.0), (2e6, 1.25), (4e6, 1.5), (1e9, 1.5), (2.5e5, 0.5), (10.0, 0.5), (0.0, 0.5)]
        {
            assert!((CURVE.bytes_per_s(bytes) - gbyte_per_s * 1e9).abs() < 1.0, "{bytes}");
        }
    }

    #[test]
    fn curves_that_make_no_sense_are_refused() {
        assert_eq!(CURVE.check("flow"), Ok(()));
        let refused = |curve: FlowCurve| curve.check("flow").unwrap_err().to_string();
        assert!(refused(FlowCurve { from_bytes: 0.0, ..CURVE }).starts_with("`flow.from_bytes` is `0`"));
        assert!(refused(FlowCurve { to_bytes: 1e5, ..CURVE }).starts_with("`flow.to_bytes` is `100000`"));
        assert!(refused(FlowCurve { to_bytes: f64::NAN, ..CURVE }).starts_with("`flow.to_bytes` is `NaN`"));
        // Below zero in between only: x² - 1 from x = -2 to 2.
        let sunk = FlowCurve { gbyte_per_s: [1.0, 0.0, -1.0], ..CURVE };
        assert!(refused(sunk).starts_with("`flow.gbyte_per_s` is `-8`"), "{}", refused(sunk));
        assert!(refused(FlowCurve { gbyte_per_s: [f64::NAN, 0.0, 1.0], ..CURVE }).contains("NaN"));
    }
}

//! Numbers for people: three or four significant digits, and no more. Files hold full precision instead.

/// What stands where there is no value: a mean of nothing, a price of zero tokens.
pub(super) const ABSENT: &str = "-";

/// A whole number with its thousands set apart: `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number to four significant digits: `0.01235`, `1.235`, `123.5`, `12,346`. Digits before the point are never dropped.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    if value.abs() >= 999.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(value.abs().round() as u64));
    }
    if value.abs() < 1e-12 {
        return "0".to_owned();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let decimals = (4 - before_point).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

/// A number to three significant digits with an SI prefix: `950`, `12.3 k`, `4.56 G`.
pub(super) fn scaled(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", " k", " M", " G", " T"];
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let (mut value, mut prefix) = (value, 0);
    while value.abs() >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let decimals = match value.abs() {
        size if prefix == 0 && size.fract() == 0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", PREFIXES[prefix])
}

/// A share as a percentage: `62.1 %`.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { ABSENT.to_owned() }
}

/// Applies `write` to a value that may be absent.
pub(super) fn or_absent(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), write)
}

/// `part / whole`, where that is a number.
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    let ratio = part / whole;
    (whole != 0.0 && ratio.is_finite()).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
    }

    #[test]
    fn figures_have_four_significant_digits() {
        let written = [0.012_345_6, 1.234_56, 123.456, 999.94, 999.96, 12_345.6, 0.0, -2.5, 9.999_96];
        let wanted = ["0.01235", "1.235", "123.5", "999.9", "1,000", "12,346", "0", "-2.500", "10.000"];
        assert_eq!(written.map(figure), wanted);
        assert_eq!(figure(f64::NAN), ABSENT);
    }

    #[test]
    fn prefixes_are_chosen_after_rounding() {
        let written = [0.0, 950.0, 12.345, 999.6, 12_345.0, 4.56e9, 99.96, 7e15];
        assert_eq!(written.map(scaled), ["0", "950", "12.3", "1.00 k", "12.3 k", "4.56 G", "100", "7000 T"]);
    }

    #[test]
    fn nothing_over_nothing_is_absent() {
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(f64::NAN, 1.0), None);
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
        assert_eq!(or_absent(None, percent), "-");
        assert_eq!(or_absent(Some(0.25), percent), "25.0 %");
    }
}

//! Pools in one word: `5x8xA100-40@us-east-1a:8.2`.

use super::settings::{GeneratorError, PoolSettings};
use crate::trace::error::shown;

impl PoolSettings {
    /// Reads `NODESxGPUSxTYPE[@ZONE][:PRICE]`; everything else has its default. Whether such a GPU exists isn't asked here.
    ///
    /// ```
    /// use autohet::trace::generator::PoolSettings;
    /// let pool = PoolSettings::parse("5x8xA100-40@us-east-1a:8.2").unwrap();
    /// assert_eq!((pool.nodes, pool.gpu_count, pool.gpu_type.as_str()), (5, 8, "A100-40"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`GeneratorError::Pool`] shows the part that doesn't fit.
    pub fn parse(text: &str) -> Result<Self, GeneratorError> {
        let fault = |expected: &str, found: &str| GeneratorError::Pool {
            text: shown(text),
            expected: expected.to_owned(),
            found: if found.is_empty() { "nothing".to_owned() } else { format!("`{}`", shown(found)) },
        };
        let count = |part: Option<&str>, most: u32, what: &str| {
            let part = part.unwrap_or_default();
            let count = part.parse().ok().filter(|count| (1..=most).contains(count));
            count.ok_or_else(|| fault(&format!("a number of {what} from 1 to {most}"), part))
        };
        let (rest, price) = match text.rsplit_once(':') {
            Some((rest, price)) => (rest, Some(price)),
            None => (text, None),
        };
        let (nodes, zone) = match rest.split_once('@') {
            Some((nodes, zone)) => (nodes, Some(zone)),
            None => (rest, None),
        };
        let mut parts = nodes.splitn(3, 'x');
        let nodes = count(parts.next(), 10_000, "nodes")?;
        let gpus = count(parts.next(), 1024, "GPUs a node")?;
        let gpu_type = parts.next().unwrap_or_default();
        if gpu_type.is_empty() || gpu_type.contains(char::is_whitespace) {
            return Err(fault("the GPU's name after the second `x`", gpu_type));
        }
        let mut pool = Self::new(nodes, gpus, gpu_type);
        if let Some(zone) = zone {
            if zone.is_empty() || zone.contains(char::is_whitespace) {
                return Err(fault("the name of a zone after `@`", zone));
            }
            pool.zone = Some(zone.to_owned());
        }
        if let Some(price) = price {
            let number = price.parse().ok().filter(|number| (0.0..=1e6).contains(number));
            pool.price_usd_per_hour = Some(number.ok_or_else(|| fault("US dollars per node-hour after `:`", price))?);
        }
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn zone_and_price_may_be_left_out() {
        let pool = PoolSettings::parse("3x8xT4@us-east-1a:2.9").unwrap();
        let expected = PoolSettings {
            zone: Some("us-east-1a".into()),
            price_usd_per_hour: Some(2.9),
            ..PoolSettings::new(3, 8, "T4")
        };
        assert_eq!(pool, expected);
        assert_eq!(PoolSettings::parse("3x8xT4").unwrap(), PoolSettings::new(3, 8, "T4"));
        assert_eq!(PoolSettings::parse("3x8xT4:0").unwrap().price_usd_per_hour, Some(0.0));
        assert_eq!(PoolSettings::parse("1x1xmaxq@z").unwrap().gpu_type, "maxq");
    }

    #[rstest]
    #[case("", "expected a number of nodes from 1 to 10000, found nothing")]
    #[case("A100", "a number of nodes from 1 to 10000, found `A100`")]
    #[case("0x8xT4", "a number of nodes from 1 to 10000, found `0`")]
    #[case("5xA100-40@z", "a number of GPUs a node from 1 to 1024, found `A100-40`")]
    #[case("5x0xT4", "a number of GPUs a node from 1 to 1024, found `0`")]
    #[case("5x8", "the GPU's name after the second `x`, found nothing")]
    #[case("5x8x@z", "the GPU's name after the second `x`, found nothing")]
    #[case("5x8xT4@", "the name of a zone after `@`, found nothing")]
    #[case("5x8xT4@z:cheap", "US dollars per node-hour after `:`, found `cheap`")]
    #[case("5x8xT4@z:-1", "US dollars per node-hour after `:`, found `-1`")]
    #[case("5x8xT4@z:NaN", "found `NaN`")]
    fn errors_show_the_part_that_does_not_fit(#[case] text: &str, #[case] expected: &str) {
        let message = PoolSettings::parse(text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("pool `{text}`: expected ")) && message.contains(expected), "{message}");
        assert!(message.contains("\nhint: a pool is NODESxGPUSxTYPE"), "{message}");
    }
}

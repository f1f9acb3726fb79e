//! What the processes of one run know and others don't. It travels in the environment of the ranks' processes, which only
//! their owner can read, never on a command line, which everybody can.

use super::DeviceError;
use rand::TryRng;
use rand::rngs::SysRng;
use std::fmt::Write;

/// The environment variable that takes the secret to the ranks.
pub const SECRET_VARIABLE: &str = "AUTOHET_RUN_SECRET";

const BYTES: usize = 32;

/// A run's secret: 32 random bytes.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

impl Secret {
    /// A new one, from the system's randomness. Nothing that is computed depends on it.
    pub fn random() -> Result<Self, DeviceError> {
        let mut bytes = [0; BYTES];
        SysRng.try_fill_bytes(&mut bytes).map_err(|error| DeviceError::Random(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// As the environment carries it.
    pub fn to_hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(2 * BYTES), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a string can't fail");
            hex
        })
    }

    /// Reads what [`to_hex`](Self::to_hex) wrote.
    pub fn from_hex(hex: &str) -> Option<Self> {
        if hex.len() != 2 * BYTES || !hex.is_ascii() {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// What follows the secret in a message that begins with it. It takes as long wherever the bytes differ.
    pub(super) fn opens<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        let (said, rest) = message.split_at_checked(BYTES)?;
        let difference = said.iter().zip(&self.0).fold(0, |difference, (a, b)| difference | (a ^ b));
        (difference == 0).then_some(rest)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_there_and_back_and_nothing_else_is_read() {
        let secret = Secret::random().unwrap();
        let hex = secret.to_hex();
        assert_eq!(Secret::from_hex(&hex).unwrap().0, secret.0);
        assert!(Secret::from_hex(&hex[1..]).is_none());
        assert!(Secret::from_hex(&"g".repeat(64)).is_none());
        assert!(!format!("{secret:?}").contains(&hex));
    }
}

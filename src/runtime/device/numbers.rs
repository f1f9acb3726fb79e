//! Numbers as they travel and as they are stored: four bytes each, little endian.

use super::transport::TransportError;
use std::borrow::Cow;

/// The bytes of numbers; borrowed where the machine has them in this order anyway.
pub(super) fn to_bytes(values: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(values))
    } else {
        Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
}

/// The numbers of whole groups of four bytes, one by one.
pub(super) fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// Puts the numbers of a message in their place, by `put`. A message of another length is none that was waited for.
pub(super) fn receive_into(
    place: &mut [f32],
    message: &[u8],
    put: impl Fn(&mut f32, f32),
) -> Result<(), TransportError> {
    let expected = size_of_val(place);
    if message.len() != expected {
        return Err(TransportError::Length { found: message.len(), expected });
    }
    place.iter_mut().zip(from_bytes(message)).for_each(|(value, new)| put(value, new));
    Ok(())
}

/// The numbers of whole groups of four bytes, all at once.
pub(super) fn vector(bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0_f32; bytes.len() / size_of::<f32>()];
    bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
    if cfg!(target_endian = "big") {
        for value in &mut values {
            *value = f32::from_bits(value.to_bits().swap_bytes());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_their_bytes() {
        let values = [1.0_f32, -0.0, f32::MIN_POSITIVE, 1e38];
        let bytes = to_bytes(&values);
        assert_eq!(bytes[..4], [0, 0, 0x80, 0x3f]);
        assert!(vector(&bytes).iter().zip(&values).all(|(found, sent)| found.to_bits() == sent.to_bits()));
        assert!(from_bytes(&bytes).eq(values));
        let mut place = [0.0; 4];
        receive_into(&mut place, &bytes, |value, new| *value = new).unwrap();
        assert!(from_bytes(&to_bytes(&place)).eq(values));
        let short = receive_into(&mut place, &bytes[..12], |value, new| *value = new).unwrap_err().to_string();
        assert_eq!(short, "a message of 12 bytes came where one of 16 was due");
    }
}

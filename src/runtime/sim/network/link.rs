//! A link, and the transfers that cross it.

/// A link of which no larger share is to spare is full.
const FULL: f64 = 1e-9;
/// Transfers that stand in the link itself.
const NEAR: usize = 19;

/// A link. What is looked at whenever a transfer begins or ends is one cache line, for up to eleven transfers: of thousands of
/// links, few are in the processor's cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct LinkState {
    pub(super) bytes_per_s: f64,
    /// What the active transfers take of it, those without a rate left out.
    pub(super) used_bytes_per_s: f64,
    count: u32,
    near: [u32; NEAR],
    /// All transfers, where they are more.
    far: Vec<u32>,
}

impl LinkState {
    pub(super) fn new(bytes_per_s: f64) -> Self {
        Self { bytes_per_s, used_bytes_per_s: 0.0, count: 0, near: [0; NEAR], far: Vec::new() }
    }

    /// The transfers that cross it, in the order in which they began.
    pub(super) fn active(&self) -> &[u32] {
        let count = self.count as usize;
        if count <= NEAR { &self.near[..count] } else { &self.far }
    }

    pub(super) fn add(&mut self, transfer: u32) {
        let count = self.count as usize;
        if count < NEAR {
            self.near[count] = transfer;
        } else {
            if count == NEAR {
                self.far.extend_from_slice(&self.near);
            }
            self.far.push(transfer);
        }
        self.count += 1;
    }

    pub(super) fn remove(&mut self, transfer: u32) {
        let count = self.count as usize;
        let active = if count <= NEAR { &mut self.near[..count] } else { &mut self.far[..] };
        let Some(place) = active.iter().position(|&other| other == transfer) else { return };
        active.copy_within(place + 1.., place);
        self.count -= 1;
        if count > NEAR {
            self.far.pop();
            if count == NEAR + 1 {
                self.near.copy_from_slice(&self.far);
                self.far.clear();
            }
        }
    }

    /// Whether nothing larger than rounding is to spare.
    pub(super) fn is_full(&self) -> bool {
        self.spare_bytes_per_s() <= self.bytes_per_s * FULL
    }

    pub(super) fn spare_bytes_per_s(&self) -> f64 {
        if self.bytes_per_s.is_finite() { (self.bytes_per_s - self.used_bytes_per_s).max(0.0) } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_begins_and_ends_needs_one_cache_line() {
        assert_eq!((size_of::<LinkState>(), align_of::<LinkState>()), (128, 64));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_list_holds(steps in prop::collection::vec((any::<bool>(), 0_u32..64), 0..200)) {
            let (mut link, mut list) = (LinkState::new(1.0), Vec::new());
            for (adds, transfer) in steps {
                if adds && !list.contains(&transfer) {
                    link.add(transfer);
                    list.push(transfer);
                } else if !adds {
                    link.remove(transfer);
                    list.retain(|&other| other != transfer);
                }
                prop_assert_eq!(link.active(), &list[..]);
            }
        }
    }
}

//! A store at the pace of something slower and further away.

use super::turn::Turn;
use super::{Object, ObjectStore, StoreError};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Time, and how it is spent: the real one, or that of a test.
pub trait Pace: Send + Sync {
    /// Time since some origin.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// Real time.
#[derive(Clone, Copy, Debug)]
pub struct WallPace(Instant);

impl Default for WallPace {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Pace for WallPace {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// Real time as all processes of a machine have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedPace;

impl Pace for SharedPace {
    fn now(&self) -> Duration {
        // A clock before its epoch stands still.
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A store whose transfers take a latency and, one after the other, their bytes over a bandwidth.
///
/// All threads that use one handle share its bandwidth: what is asked for first is transferred first, while latencies
/// overlap. Processes share nothing, as clients of a store that grows with them; where they are to share the bandwidth, it is
/// [`shared`](Self::shared). Time that the inner store takes is counted in, not added; where it is slower than the limit, it takes as long as
/// it takes. What is put can be read from the inner store as soon as that has it.
#[derive(Debug)]
pub struct Limited<S, P = WallPace> {
    inner: S,
    bytes_per_s: f64,
    latency: Duration,
    pace: P,
    turn: Turn,
}

impl<S: ObjectStore> Limited<S> {
    /// Limits a store to `bytes_per_s`, more than zero, after a `latency` for each request.
    pub fn new(inner: S, bytes_per_s: f64, latency: Duration) -> Self {
        Self::with_pace(inner, bytes_per_s, latency, WallPace::default())
    }
}

impl<S: ObjectStore> Limited<S, SharedPace> {
    /// Limits a store to `bytes_per_s`, more than zero, over all processes that name the same file.
    pub fn shared(inner: S, bytes_per_s: f64, file: &Path) -> Self {
        Self { turn: Turn::by_file(file), ..Self::with_pace(inner, bytes_per_s, Duration::ZERO, SharedPace) }
    }
}

impl<S: ObjectStore, P: Pace> Limited<S, P> {
    /// The same, in a time of the caller's choice.
    pub fn with_pace(inner: S, bytes_per_s: f64, latency: Duration, pace: P) -> Self {
        assert!(bytes_per_s > 0.0, "a store of `{bytes_per_s}` bytes/s transfers nothing");
        Self { inner, bytes_per_s, latency, pace, turn: Turn::in_process() }
    }

    /// Does a request and waits until its bytes are through.
    fn paced<T>(
        &self,
        request: impl FnOnce() -> Result<T, StoreError>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, StoreError> {
        let asked_at = self.pace.now();
        let answer = request()?;
        let ends_at = self.transfer(asked_at, bytes(&answer))?.saturating_add(self.latency);
        let rest = ends_at.saturating_sub(self.pace.now());
        if !rest.is_zero() {
            self.pace.sleep(rest);
        }
        Ok(answer)
    }

    /// When bytes are through that were asked for at this time.
    fn transfer(&self, asked_at: Duration, bytes: usize) -> Result<Duration, StoreError> {
        if bytes == 0 {
            return Ok(asked_at);
        }
        let takes = Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_s).unwrap_or(Duration::MAX);
        self.turn.take(asked_at, takes)
    }
}

impl<S: ObjectStore, P: Pace> ObjectStore for Limited<S, P> {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.paced(|| self.inner.put(name, parts), |()| parts.iter().map(|part| part.len()).sum())
    }

    fn put_all(&self, objects: &[(String, Vec<&[u8]>)]) -> Result<(), StoreError> {
        let parts = || objects.iter().flat_map(|(_, parts)| parts);
        self.paced(|| self.inner.put_all(objects), |()| parts().map(|part| part.len()).sum())
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.paced(|| self.inner.get(name), |found| found.as_ref().map_or(0, Vec::len))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        self.paced(|| self.inner.list(prefix), |_| 0)
    }

    fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        self.paced(|| self.inner.delete(names), |()| 0)
    }

    fn leftovers(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.paced(|| self.inner.leftovers(prefix), |_| 0)
    }

    fn place(&self, name: &str) -> String {
        self.inner.place(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::device::store::LocalDirectory;
    use std::sync::{Arc, Mutex};

    /// A time in which only sleeping takes any, and a list of sleeps.
    #[derive(Default)]
    struct Dream {
        now: Mutex<Duration>,
        sleeps: Mutex<Vec<Duration>>,
        stands_still: bool,
    }

    impl Pace for Arc<Dream> {
        fn now(&self) -> Duration {
            *self.now.lock().unwrap()
        }

        fn sleep(&self, duration: Duration) {
            self.sleeps.lock().unwrap().push(duration);
            if !self.stands_still {
                *self.now.lock().unwrap() += duration;
            }
        }
    }

    const LATENCY: Duration = Duration::from_millis(20);

    fn limited(bytes_per_s: f64, dream: &Arc<Dream>) -> (tempfile::TempDir, Limited<LocalDirectory, Arc<Dream>>) {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path());
        (place, Limited::with_pace(store, bytes_per_s, LATENCY, dream.clone()))
    }

    #[test]
    fn a_transfer_takes_its_latency_and_its_bytes_over_the_bandwidth() {
        let dream = Arc::new(Dream::default());
        let (_place, store) = limited(1e6, &dream);
        store.put("a", &[&vec![1; 150_000], &vec![2; 50_000]]).unwrap();
        assert_eq!(dream.now(), LATENCY + Duration::from_millis(200));
        assert_eq!(store.get("a").unwrap().unwrap().len(), 200_000);
        assert_eq!(dream.now(), 2 * (LATENCY + Duration::from_millis(200)));
        let before = dream.now();
        assert_eq!(store.get("never").unwrap(), None);
        assert_eq!(store.list("").unwrap().len(), 1);
        assert_eq!(store.leftovers("").unwrap().len(), 0);
        store.delete(&["a"]).unwrap();
        assert_eq!(dream.now(), before + 4 * LATENCY, "requests without bytes");
    }

    #[test]
    fn a_pause_saves_nothing_up() {
        let dream = Arc::new(Dream::default());
        let (_place, store) = limited(1e3, &dream);
        dream.sleep(Duration::from_hours(1));
        store.put("a", &[&[1; 1000]]).unwrap();
        assert_eq!(dream.sleeps.lock().unwrap()[1], LATENCY + Duration::from_secs(1));
    }

    #[test]
    fn threads_share_the_bandwidth_but_not_the_latency() {
        let dream = Arc::new(Dream { stands_still: true, ..Dream::default() });
        let (_place, store) = limited(1e3, &dream);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let store = &store;
                scope.spawn(move || store.put(name, &[&[1; 500]]).unwrap());
            }
        });
        let mut sleeps = dream.sleeps.lock().unwrap().clone();
        sleeps.sort();
        assert_eq!(sleeps, [1, 2, 3, 4].map(|n| LATENCY + n * Duration::from_millis(500)));
    }

    #[test]
    fn what_the_inner_store_takes_is_counted_in() {
        let dream = Arc::new(Dream::default());
        let (_place, store) = limited(1e3, &dream);
        let slow = |takes: Duration| {
            let request = || {
                dream.sleep(takes);
                Ok(())
            };
            store.paced(request, |()| 1000)
        };
        slow(Duration::from_millis(900)).unwrap();
        assert_eq!(dream.now(), LATENCY + Duration::from_secs(1));
        slow(Duration::from_secs(5)).unwrap();
        assert_eq!(dream.now(), LATENCY + Duration::from_secs(6), "slower than its limit");
    }
}

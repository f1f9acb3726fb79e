//! Independent work side by side: on so many threads, each of which is all that the work on it has.

use rayon::ThreadPoolBuilder;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Does `work` on each item, on `jobs` threads, and tells `each` of the item's place and what came of it, in the order in
/// which they end, on the calling thread. `each` ends it all with an error.
///
/// A planner spreads its own work over rayon's threads. Here that would be more threads than cores, and work of one run in
/// the middle of another's; so each thread is a pool of its own, of one.
///
/// # Errors
/// That of `each`; what has begun by then is finished first.
pub fn in_parallel<T: Sync, R: Send, E>(
    jobs: NonZero<usize>,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let serve = |sender: mpsc::Sender<(usize, R)>| {
        // It refuses where the thread belongs to a pool already, which a new one doesn't.
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            if sender.send((index, work(item))).is_err() {
                break;
            }
        }
        drop(pool);
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            let sender = sender.clone();
            scope.spawn(|| serve(sender));
        }
        drop(sender);
        let mut ended = Ok(());
        for (index, done) in &receiver {
            if ended.is_ok() {
                ended = each(index, done);
                is_over.store(ended.is_err(), Ordering::Relaxed);
            }
        }
        ended
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;
    use std::collections::BTreeSet;

    fn jobs(count: usize) -> NonZero<usize> {
        NonZero::new(count).unwrap()
    }

    #[test]
    fn each_item_is_done_once() {
        let items: Vec<u64> = (0..100).collect();
        for count in [1, 3, 200] {
            let mut seen = BTreeSet::new();
            let done = in_parallel(
                jobs(count),
                &items,
                |item| item * 2,
                |index, double| {
                    assert_eq!(double, 2 * index as u64);
                    assert!(seen.insert(index));
                    Ok::<(), ()>(())
                },
            );
            assert_eq!((done, seen.len()), (Ok(()), 100));
        }
    }

    #[test]
    fn work_that_spreads_stays_on_its_thread() {
        let items = [(); 8];
        let work = |(): &()| {
            let here = thread::current().id();
            let threads: BTreeSet<String> =
                (0..64).into_par_iter().map(|_| format!("{:?}", thread::current().id())).collect();
            threads == BTreeSet::from([format!("{here:?}")])
        };
        in_parallel(jobs(2), &items, work, |_, stayed| if stayed { Ok(()) } else { Err("left") }).unwrap();
    }

    #[test]
    fn an_error_ends_it() {
        let items: Vec<u32> = (0..10_000).collect();
        let mut told = 0;
        let ended = in_parallel(
            jobs(2),
            &items,
            |item| *item,
            |_, _| {
                told += 1;
                if told == 3 { Err("enough") } else { Ok(()) }
            },
        );
        assert_eq!((ended, told), (Err("enough"), 3));
    }
}

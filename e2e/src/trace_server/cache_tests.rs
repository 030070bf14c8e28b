use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;

fn entry(bytes: usize) -> Entry {
    Entry::new(vec![b'k'; 24].into(), vec![vec![7; bytes].into()])
}

fn bytes_of<T>() -> u64 {
    u64::try_from(size_of::<T>()).unwrap()
}

/// What an entry of [`entry`] counts beyond the length of its block.
fn overhead() -> u64 {
    bytes_of::<Slot>() + bytes_of::<Box<[u8]>>() + 24
}

#[test]
fn an_entry_counts_every_requested_byte() {
    assert_eq!(entry(1000).accounted(), 1000 + overhead());
    let two = Entry::new(Box::default(), vec![vec![1; 10].into(), vec![1; 20].into()]);
    assert_eq!(
        two.accounted(),
        bytes_of::<Slot>() + 2 * bytes_of::<Box<[u8]>>() + 30
    );
}

#[test]
fn the_least_recently_used_goes_first() {
    let one = entry(1000).accounted();
    let cache = Cache::new(16 * one * 2, one);
    let mut freed = Vec::new();
    // Keys 0, 16, 32 share a shard that holds two entries.
    for key in [0, 16] {
        let stored = cache.insert(key, entry(1000), &mut freed);
        assert_eq!(
            stored,
            Inserted::Stored {
                evictions: 0,
                evicted_bytes: 0
            }
        );
    }
    assert!(cache.touch(0));
    let stored = cache.insert(32, entry(1000), &mut freed);
    assert_eq!(
        stored,
        Inserted::Stored {
            evictions: 1,
            evicted_bytes: one
        }
    );
    assert_eq!(
        (cache.touch(0), cache.touch(16), cache.touch(32)),
        (true, false, true)
    );
    assert_eq!(freed.len(), 1);
    assert_eq!(cache.accounted(), 2 * one);
}

#[test]
fn one_large_entry_evicts_as_many_as_it_must() {
    let one = entry(100).accounted();
    let cache = Cache::new(16 * 10 * one, one);
    let mut freed = Vec::new();
    for n in 0..10 {
        cache.insert(n * 16, entry(100), &mut freed);
    }
    assert!(freed.is_empty());
    let large = entry(usize::try_from(4 * one - overhead()).unwrap());
    let stored = cache.insert(1600, large, &mut freed);
    assert_eq!(
        stored,
        Inserted::Stored {
            evictions: 4,
            evicted_bytes: 4 * one
        }
    );
    assert_eq!(cache.accounted(), 10 * one);
}

#[test]
fn what_is_not_stored_is_handed_back() {
    let one = entry(100).accounted();
    let cache = Cache::new(16 * one, one);
    let mut freed = Vec::new();
    assert_eq!(cache.insert(0, entry(101), &mut freed), Inserted::TooLarge);
    assert_eq!((freed.len(), cache.accounted()), (1, 0));
    cache.insert(0, entry(100), &mut freed);
    assert_eq!(cache.insert(0, entry(50), &mut freed), Inserted::Present);
    assert_eq!((freed.len(), cache.accounted()), (2, one));
}

/// Against a plain model: a map of what is cached and a list of use.
#[test]
fn accounting_is_exact_over_many_operations() {
    let cache = Cache::new(16 * 20_000, 500);
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let mut order: Vec<u64> = Vec::new();
    let (mut inserted, mut evicted, mut random) = (0, 0, 88_172_645_463_325_252_u64);
    let mut freed = Vec::new();
    for _ in 0..20_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = random % 200 * 16; // one shard, so that the model needs one list
        if cache.touch(key) {
            assert!(model.contains_key(&key));
            order.retain(|&k| k != key);
            order.push(key);
            continue;
        }
        assert!(!model.contains_key(&key));
        let new = entry(usize::try_from(random >> 40).unwrap() % 1500);
        let bytes = new.accounted();
        let outcome = cache.insert(key, new, &mut freed);
        let (mut evictions, mut evicted_bytes) = (0, 0);
        while model.values().sum::<u64>() + bytes > 20_000 {
            evicted_bytes += model.remove(&order.remove(0)).unwrap();
            evictions += 1;
        }
        model.insert(key, bytes);
        order.push(key);
        assert_eq!(
            outcome,
            Inserted::Stored {
                evictions,
                evicted_bytes
            }
        );
        inserted += bytes;
        evicted += evicted_bytes;
        assert_eq!(u64::try_from(freed.drain(..).count()).unwrap(), evictions);
        assert_eq!(cache.accounted(), inserted - evicted);
        assert_eq!(cache.accounted(), model.values().sum::<u64>());
    }
    assert!(evicted > 1_000_000);
}

#[test]
fn never_above_capacity_under_threads() {
    let cache = Cache::new(16 * 10_000, 500);
    let stop = AtomicBool::new(false);
    let sums = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut highest = 0;
            while !stop.load(Relaxed) {
                highest = highest.max(cache.accounted());
            }
            highest
        });
        let workers: Vec<_> = (0..4_u64)
            .map(|seed| {
                let cache = &cache;
                scope.spawn(move || {
                    let (mut random, mut freed) = (seed + 99, Vec::new());
                    let (mut stored, mut evicted) = (0, 0);
                    for _ in 0..20_000 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let new = entry(usize::try_from(random >> 32).unwrap() % 1000);
                        let bytes = new.accounted();
                        if let Inserted::Stored { evicted_bytes, .. } =
                            cache.insert(random % 1000, new, &mut freed)
                        {
                            stored += bytes;
                            evicted += evicted_bytes;
                        }
                        freed.clear();
                    }
                    (stored, evicted)
                })
            })
            .collect();
        let sums: Vec<(u64, u64)> = workers.into_iter().map(|w| w.join().unwrap()).collect();
        stop.store(true, Relaxed);
        assert!(watcher.join().unwrap() <= cache.capacity());
        sums
    });
    let (stored, evicted) = sums.iter().fold((0, 0), |(s, e), &(a, b)| (s + a, e + b));
    assert_eq!(cache.accounted(), stored - evicted);
}

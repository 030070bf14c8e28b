//! Takes entries, gives an LRU cache with an exact count of accounted bytes; must never hold more than its capacity,
//! not even between insertion and eviction, and must never free a block while a lock is held.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shards, each with its own lock, order and share of the capacity.
const SHARDS: u64 = 16;

/// A cached value: a name and blocks of bytes, each an allocation of its own.
#[derive(Debug)]
pub struct Entry {
    accounted: u64,
    name: Box<[u8]>,
    blocks: Vec<Box<[u8]>>,
}

impl Entry {
    /// An entry of these blocks. Its accounted bytes are the exact sum of all requested sizes: the record in the
    /// cache's table, the list of blocks, the name and the blocks.
    pub fn new(name: Box<[u8]>, blocks: Vec<Box<[u8]>>) -> Self {
        let bytes = size_of::<Slot>()
            + blocks.capacity() * size_of::<Box<[u8]>>()
            + name.len()
            + blocks.iter().map(|block| block.len()).sum::<usize>();
        Self {
            accounted: u64::try_from(bytes).unwrap_or(u64::MAX),
            name,
            blocks,
        }
    }

    /// Bytes that this entry counts against the capacity.
    pub fn accounted(&self) -> u64 {
        self.accounted
    }

    /// Name and blocks, for a reader.
    pub fn parts(&self) -> (&[u8], &[Box<[u8]>]) {
        (&self.name, &self.blocks)
    }
}

/// What became of an entry that was to be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the cache; so many entries with so many accounted bytes were evicted for it.
    Stored {
        /// Evicted entries.
        evictions: u64,
        /// Their accounted bytes.
        evicted_bytes: u64,
    },
    /// Another thread inserted the key first; the entry was handed back.
    Present,
    /// The entry alone is larger than a shard; it was handed back.
    TooLarge,
}

/// The cache: 16 shards, each of which evicts its least recently used entries before an insertion would exceed its
/// sixteenth of the capacity.
#[derive(Debug)]
pub struct Cache {
    shards: Vec<Shard>,
    shard_capacity: u64,
}

#[derive(Debug)]
struct Shard {
    lru: Mutex<Lru>,
    /// Copy of `Lru::bytes`, written under the lock, so that a scrape takes no lock.
    bytes: AtomicU64,
}

impl Cache {
    /// A cache of `capacity` bytes (rounded down to a multiple of 16), with tables sized for entries of
    /// `mean_entry_bytes` so that they do not grow in the steady state.
    pub fn new(capacity: u64, mean_entry_bytes: u64) -> Self {
        let shard_capacity = capacity / SHARDS;
        let expected = usize::try_from(shard_capacity / mean_entry_bytes.max(1)).unwrap_or(0);
        let shards = (0..SHARDS)
            .map(|_| Shard {
                lru: Mutex::new(Lru::sized(expected * 2)),
                bytes: AtomicU64::new(0),
            })
            .collect();
        Self {
            shards,
            shard_capacity,
        }
    }

    /// Bytes that the cache may hold.
    pub fn capacity(&self) -> u64 {
        self.shard_capacity * SHARDS
    }

    /// Bytes that the cache holds. Never above [`Cache::capacity`].
    pub fn accounted(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.bytes.load(Relaxed))
            .sum()
    }

    /// Whether the key is cached; if so it becomes the most recently used.
    pub fn touch(&self, key: u64) -> bool {
        self.shard(key).is_some_and(|shard| shard.lock().touch(key))
    }

    /// Inserts an entry as the most recently used. Evicted entries, or the entry itself when it was not stored, are
    /// appended to `to_free`, so that the caller frees them on its own thread without the lock.
    pub fn insert(&self, key: u64, entry: Entry, to_free: &mut Vec<Entry>) -> Inserted {
        let Some(shard) = self.shard(key) else {
            return Inserted::TooLarge;
        };
        if entry.accounted > self.shard_capacity {
            to_free.push(entry);
            return Inserted::TooLarge;
        }
        let mut lru = shard.lock();
        if lru.touch(key) {
            drop(lru);
            to_free.push(entry);
            return Inserted::Present;
        }
        let (mut evictions, mut evicted_bytes) = (0, 0);
        while lru.bytes + entry.accounted > self.shard_capacity
            && let Some(victim) = lru.pop_oldest()
        {
            evictions += 1;
            evicted_bytes += victim.accounted;
            to_free.push(victim);
        }
        lru.push(key, entry);
        shard.bytes.store(lru.bytes, Relaxed);
        Inserted::Stored {
            evictions,
            evicted_bytes,
        }
    }

    fn shard(&self, key: u64) -> Option<&Shard> {
        self.shards.get(usize::try_from(key % SHARDS).unwrap_or(0))
    }
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Lru> {
        self.lru.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// "No slot" in a link: no vector has that many.
const NONE: usize = usize::MAX;

/// A place in the order. A place without entry is on the free list, which is linked by `older`.
#[derive(Debug)]
struct Slot {
    key: u64,
    newer: usize,
    older: usize,
    entry: Option<Entry>,
}

/// Order of use as a doubly linked list of indices into one table, so that neither use nor eviction allocates.
#[derive(Debug)]
struct Lru {
    slots: Vec<Slot>,
    by_key: HashMap<u64, usize>,
    newest: usize,
    oldest: usize,
    free: usize,
    bytes: u64,
}

impl Lru {
    fn sized(entries: usize) -> Self {
        Self {
            slots: Vec::with_capacity(entries),
            by_key: HashMap::with_capacity(entries),
            newest: NONE,
            oldest: NONE,
            free: NONE,
            bytes: 0,
        }
    }

    fn touch(&mut self, key: u64) -> bool {
        let Some(&at) = self.by_key.get(&key) else {
            return false;
        };
        self.unlink(at);
        self.link_newest(at);
        true
    }

    fn push(&mut self, key: u64, entry: Entry) {
        self.bytes += entry.accounted;
        let filled = Slot {
            key,
            newer: NONE,
            older: NONE,
            entry: Some(entry),
        };
        let at = self.free;
        if let Some(slot) = self.slots.get_mut(at) {
            self.free = slot.older;
            *slot = filled;
            self.link_newest(at);
            self.by_key.insert(key, at);
        } else {
            let at = self.slots.len();
            self.slots.push(filled);
            self.link_newest(at);
            self.by_key.insert(key, at);
        }
    }

    fn pop_oldest(&mut self) -> Option<Entry> {
        let at = self.oldest;
        self.unlink(at);
        let slot = self.slots.get_mut(at)?;
        let entry = slot.entry.take()?;
        slot.older = self.free;
        self.free = at;
        self.by_key.remove(&slot.key);
        self.bytes -= entry.accounted;
        Some(entry)
    }

    fn unlink(&mut self, at: usize) {
        let Some(&Slot { newer, older, .. }) = self.slots.get(at) else {
            return;
        };
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: usize) {
        let before = self.newest;
        if let Some(slot) = self.slots.get_mut(at) {
            slot.newer = NONE;
            slot.older = before;
        }
        match self.slots.get_mut(before) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

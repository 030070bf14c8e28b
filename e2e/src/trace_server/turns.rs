//! Takes notes of inserted bytes, gives groups of workers their turns; must never let two groups work at once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};

/// The turns: group `n mod groups` works in turn `n` until `budget` bytes are inserted; the others sleep.
#[derive(Debug)]
pub struct Turns {
    groups: u64,
    threads: u64,
    budget: u64,
    /// Turns in all; the workers sleep for ever afterwards. `None`: without end.
    limit: Option<u64>,
    inserted: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turn: u64,
    finished: u64,
}

impl Turns {
    /// Turns of `groups` groups of `threads` workers, `rot` turns each (0: without end).
    pub fn new(groups: u32, threads: u32, rot: u32, budget: u64) -> Self {
        let groups = u64::from(groups);
        Self {
            groups,
            threads: u64::from(threads),
            budget,
            limit: (rot > 0).then(|| u64::from(rot) * groups),
            inserted: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Sleeps until the `round`-th turn (from 0) of `group` (from 0) begins.
    pub fn wait_for(&self, group: u32, round: u64) {
        let mine = round * self.groups + u64::from(group);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self
            .changed
            .wait_while(state, |state| {
                state.turn < mine || self.limit.is_some_and(|limit| mine >= limit)
            })
            .unwrap_or_else(PoisonError::into_inner);
        drop(held);
    }

    /// Whether the turn goes on.
    pub fn goes_on(&self) -> bool {
        self.inserted.load(Relaxed) < self.budget
    }

    /// Notes bytes that were inserted in this turn.
    pub fn note(&self, bytes: u64) {
        self.inserted.fetch_add(bytes, Relaxed);
    }

    /// Called once per turn by each worker of the group at work; the last one starts the next turn.
    pub fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finished += 1;
        if state.finished == self.threads {
            *state = State {
                turn: state.turn + 1,
                finished: 0,
            };
            self.inserted.store(0, Relaxed);
            self.changed.notify_all();
        }
    }

    /// Turns that are over.
    pub fn completed(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn groups_work_one_after_the_other_and_stop_at_the_limit() {
        let turns = Arc::new(Turns::new(3, 2, 2, 10));
        let (send, receive) = channel();
        for worker in 0..6_u32 {
            let (turns, send) = (Arc::clone(&turns), send.clone());
            thread::spawn(move || {
                for round in 0.. {
                    turns.wait_for(worker / 2, round);
                    let turn = turns.completed();
                    while turns.goes_on() {
                        turns.note(1);
                    }
                    send.send((turn, worker / 2)).unwrap();
                    turns.finish();
                }
            });
        }
        let mut seen: Vec<(u64, u32)> = (0..12)
            .map(|_| receive.recv_timeout(Duration::from_secs(20)).unwrap())
            .collect();
        seen.sort_unstable();
        let expected: Vec<(u64, u32)> = (0..12)
            .map(|n| (n / 2, u32::try_from(n / 2 % 3).unwrap()))
            .collect();
        assert_eq!(seen, expected);
        assert!(
            receive.recv_timeout(Duration::from_millis(50)).is_err(),
            "a turn after the last"
        );
        assert_eq!(turns.completed(), 6);
    }
}

//! Nothing gets stuck: from every state, whatever went wrong on the way, the end of every run can still be reached.

use std::collections::HashMap;
use std::time::Instant;

use stateright::Model as _;

use crate::guards::Guards;
use crate::protocol::Protocol;
use crate::scenario::{Bounds, CRASH, DRAIN, Kind, NONE, STOP};
use crate::state::World;

/// All states, and for each those from which it follows.
struct Graph {
    states: Vec<World>,
    before: Vec<Vec<usize>>,
}

impl Graph {
    fn of(protocol: &Protocol) -> Self {
        let mut states = protocol.init_states();
        let mut number: HashMap<World, usize> =
            states.iter().cloned().enumerate().map(|(at, state)| (state, at)).collect();
        let mut before = vec![Vec::new(); states.len()];
        let mut at = 0;
        while at < states.len() {
            for next in protocol.next_states(&states[at]) {
                let known = *number.entry(next).or_insert_with_key(|next| {
                    states.push(next.clone());
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[known].push(at);
            }
            at += 1;
        }
        Self { states, before }
    }

    /// A state from which no `goal` can be reached.
    fn stuck(&self, goal: impl Fn(&World) -> bool) -> Option<&World> {
        let mut ahead: Vec<usize> = (0..self.states.len()).filter(|at| goal(&self.states[*at])).collect();
        let mut seen = vec![false; self.states.len()];
        ahead.iter().for_each(|at| seen[*at] = true);
        while let Some(at) = ahead.pop() {
            for &earlier in &self.before[at] {
                if !std::mem::replace(&mut seen[earlier], true) {
                    ahead.push(earlier);
                }
            }
        }
        self.states.iter().zip(seen).find(|(_, seen)| !seen).map(|(state, _)| state)
    }
}

fn always_ends(bounds: Bounds) {
    let began = Instant::now();
    let graph = Graph::of(&Protocol { guards: Guards::ALL, bounds, watched: Vec::new() });
    // A run that changed hands as often as the bounds allow is not followed further.
    let over = |world: &World| world.rows.iter().all(|row| row.is_ended() || row.epoch == bounds.epochs);
    let stuck = graph.stuck(over);
    eprintln!("{} states in {:.1?}", graph.states.len(), began.elapsed());
    assert!(stuck.is_none(), "no way to the end from {stuck:#?}");
}

#[test]
fn after_a_kill() {
    always_ends(Bounds::of(Kind::Plain, CRASH));
}

#[test]
fn after_a_stop() {
    always_ends(Bounds { losses: false, epochs: 2, ..Bounds::of(Kind::Idempotent, STOP) });
}

#[test]
fn after_a_drain() {
    always_ends(Bounds { epochs: 2, ..Bounds::of(Kind::Plain, DRAIN) });
}

#[test]
fn after_lost_answers() {
    always_ends(Bounds::of(Kind::LookedUp, NONE));
}

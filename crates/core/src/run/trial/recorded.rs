//! A trial as a recording, and the trial of a replay.

use super::spans::Spans;
use super::tables::Tables;
use super::{MAX_RECOVERIES, Trial};
use crate::registry::Registry;
use crate::replay::{Recording, Replayed};

impl Trial {
    /// The run as it would be played again.
    pub(in crate::run) fn recording(&self) -> Recording<'_> {
        let inputs = self.tables.messages.get(&1).map_or(&[][..], std::slice::from_ref);
        Recording {
            registry: &self.registry,
            max_recoveries: MAX_RECOVERIES,
            first: &self.accepted,
            before: &[],
            inputs,
            journal: &self.journal,
        }
    }

    /// The run that was played again, event by event, with all that must hold.
    pub(in crate::run) fn of_replay(registry: Registry, replayed: &Replayed) -> Self {
        let mut tables = Tables::default();
        replayed.inputs.iter().for_each(|message| tables.message(message.clone()));
        let mut trial = Self {
            registry,
            state: replayed.first.clone(),
            tables,
            now: super::DAWN,
            journal: Vec::new(),
            accepted: replayed.first.clone(),
            listed: None,
            // Its verdicts are those of then, or of the replay's own rules.
            rules: super::Rules::default(),
            fenced: false,
            spans: Spans::default(),
            ids: 0,
        };
        for event in replayed.parts.iter().flat_map(|part| &part.events) {
            trial.now = event.at();
            trial.must(event.clone());
        }
        assert_eq!(&trial.state, replayed.last());
        trial
    }
}

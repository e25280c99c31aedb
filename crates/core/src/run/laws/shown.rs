//! What models are shown in the course of random lives: for tests of whoever renders it.

use super::life::Life;
use crate::context::{Sizes, messages_of_turn};
use crate::message::Message;
use crate::model::ToolOffer;
use crate::model_retry::Reask;
use crate::run::{Command, outstanding};

/// Events that are looked at of one life.
const MAX_EVENTS: usize = 400;

/// What a model is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The history, oldest first.
    pub messages: Vec<Message>,
    /// Tools on offer.
    pub tools: Vec<ToolOffer>,
    /// It is asked again within its step.
    pub reasked: Option<Reask>,
}

/// All that the models of one life are shown; `choices` make the life, `max_tokens` is how much of its history they see.
///
/// # Panics
/// The life breaks a law.
pub fn shown(choices: Vec<u8>, max_tokens: u64) -> Vec<Shown> {
    let mut life = Life::new(choices);
    life.trial.registry.spec.context.max_tokens = max_tokens;
    let (sizes, mut all, mut last) = (Sizes::default(), Vec::new(), None);
    for _ in 0..MAX_EVENTS {
        if life.trial.state.is_ended() {
            break;
        }
        life.goes_on();
        let asked = outstanding(&life.trial.state)
            .into_iter()
            .find(|command| matches!(command, Command::CallModel { .. }));
        if asked.is_some() && asked != last {
            all.extend(seen(&life, &sizes));
        }
        last = asked;
    }
    all
}

/// What the model is shown now, if that much fits.
fn seen(life: &Life, sizes: &Sizes) -> Option<Shown> {
    let (registry, state) = (&life.trial.registry, &life.trial.state);
    let history: Vec<Message> = life.trial.tables.messages.values().cloned().collect();
    let messages = messages_of_turn(registry, state, &history, sizes).ok()?;
    Some(Shown { messages, tools: registry.offers(), reasked: state.model.reasked })
}

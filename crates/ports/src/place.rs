//! Places among the calls of a tool that its limits let out (contract, "ToolSpec": `max_concurrent`, `rate`).

use std::time::Duration;

use answerable_core::agent::RateSpec;
use answerable_core::id::CallId;

/// A request that wants to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceWanted {
    /// Its tool, by the name that the limits go by.
    pub tool_name: String,
    /// Its call.
    pub call_id: CallId,
    /// Its attempt, from 1.
    pub attempt: u32,
    /// Places that there are.
    pub max_concurrent: Option<u32>,
    /// Requests that may leave in a span of time.
    pub rate: Option<RateSpec>,
    /// How long it may keep the place, should its server die.
    pub hold: Duration,
}

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It has its place, and that is written down: it may leave.
    Taken,
    /// It keeps its place in line if it asks again after so long.
    Wait(Duration),
    /// Another server has the run.
    Lost,
}

/// A request that had a place, and may have left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaceTaken {
    /// Its tool.
    pub tool_name: String,
    /// Its call.
    pub call_id: CallId,
    /// Its attempt.
    pub attempt: u32,
}

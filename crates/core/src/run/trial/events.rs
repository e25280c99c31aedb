//! The order of the stored events.

use std::collections::HashSet;

use serde_json::Value;

use super::Trial;
use super::tables::Told;
use crate::run::{EventType, Record};

/// Checks all of the run's events, when `records` brought new ones.
pub(super) fn check(trial: &Trial, records: &[Record]) {
    if !records.iter().any(|record| matches!(record, Record::Event { .. })) {
        return;
    }
    let events = &trial.tables.events;
    check_ends(trial, events);
    check_waits(trial, events);
    check_calls(events);
    for step in 1..=trial.state.step {
        check_step(step, events);
    }
}

fn check_ends(trial: &Trial, events: &[Told]) {
    use EventType::{RunCancelled, RunFailed, RunFinished};
    let is_end = |event: &Told| matches!(event.kind, RunFinished | RunFailed | RunCancelled);
    let ends: Vec<usize> =
        events.iter().enumerate().filter(|(_, event)| is_end(event)).map(|(i, _)| i).collect();
    let wanted = if trial.state.is_ended() { vec![events.len() - 1] } else { vec![] };
    assert_eq!(ends, wanted, "one terminal event, the last");
    if let (true, Some(last)) = (trial.state.is_ended(), events.last()) {
        assert_eq!(last.kind.as_str(), format!("run.{}", trial.state.status.as_str()));
        assert_eq!(last.data["status"], trial.state.status.as_str());
        let reason = trial.state.end.as_ref().map(|end| end.reason.as_str());
        assert_eq!(last.data["stop_reason"].as_str(), reason);
    }
}

/// The run says when it waits, for what, and when it goes on; nothing is done meanwhile.
fn check_waits(trial: &Trial, events: &[Told]) {
    use EventType::{ModelStarted, RunResumed, RunWaiting, StepStarted, ToolStarted};
    let mut waits_for: Option<&str> = None;
    for event in events {
        match event.kind {
            RunWaiting => {
                let what = event.data["for"].as_str();
                assert!(what.is_some() && waits_for != what, "it says once for what it waits");
                waits_for = what;
            }
            RunResumed => assert!(waits_for.take().is_some(), "only a waiting run goes on"),
            StepStarted | ModelStarted | ToolStarted => {
                assert!(waits_for.is_none(), "{} while it waits", event.kind.as_str());
            }
            _ => {}
        }
    }
    if !trial.state.is_ended() {
        assert_eq!(waits_for.is_some(), trial.state.status.is_waiting());
    }
}

/// No call starts undecided, and each is told of once.
fn check_calls(events: &[Told]) {
    use EventType::{
        ApprovalDecided, ApprovalRequested, CheckpointSaved, PermissionDecided, StepStarted, ToolCompleted,
        ToolReconciled, ToolRejected, ToolStarted,
    };
    let (mut allowed, mut started, mut over) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut unsaved = false;
    for event in events {
        let call = event.data["tool_call_id"].as_str();
        match event.kind {
            PermissionDecided if event.data["effect"] == "allow" => drop(allowed.insert(named(call, event))),
            PermissionDecided => drop(allowed.remove(&named(call, event))),
            ApprovalRequested | ApprovalDecided => {
                assert!(event.data["approval_id"].is_string());
                if event.data["status"] == "approved" && call.is_some() {
                    allowed.insert(named(call, event));
                }
            }
            ToolStarted => {
                let call = named(call, event);
                assert!(allowed.contains(&call), "{call} starts undecided");
                assert!(started.insert(call), "a call starts once");
            }
            ToolReconciled => assert!(started.contains(&named(call, event))),
            ToolCompleted => {
                assert!(over.insert(named(call, event)), "a call is completed once");
                unsaved = true;
            }
            ToolRejected => {
                assert!(!started.contains(call.unwrap_or_default()), "a rejected call never started");
                assert!(over.insert(named(call, event)), "a call is rejected once");
                unsaved = true;
            }
            CheckpointSaved => unsaved = false,
            StepStarted => assert!(!unsaved, "a step begins before the last one is saved"),
            _ => {}
        }
    }
}

fn named(call: Option<&str>, event: &Told) -> String {
    assert!(event.data["tool_name"].is_string(), "{event:?} names no tool");
    call.unwrap_or_else(|| panic!("{event:?} names no call")).to_owned()
}

/// Context, model, permission, tools: the first of each in this order, within each step.
fn check_step(step: u32, events: &[Told]) {
    use EventType::{
        ContextBuilt, ModelCompleted, ModelStarted, PermissionDecided, StepStarted, ToolStarted,
    };
    let order: Vec<EventType> =
        events.iter().filter(|event| event.step == Some(step)).map(|event| event.kind).collect();
    let wanted = [StepStarted, ContextBuilt, ModelStarted, ModelCompleted, PermissionDecided, ToolStarted];
    let firsts: Vec<usize> =
        wanted.iter().filter_map(|kind| order.iter().position(|known| known == kind)).collect();
    assert!(firsts.is_sorted(), "step {step} ran in the order {order:?}");
    assert!(order.iter().filter(|kind| **kind == StepStarted).count() == 1 && order[0] == StepStarted);
    assert!(order.iter().filter(|kind| **kind == ModelCompleted).count() <= 1, "one reply a step is taken");
}

/// Of an event's data, what a test wants to see.
pub(super) fn told(events: &[Told], kind: EventType) -> impl Iterator<Item = &Value> {
    events.iter().filter(move |event| event.kind == kind).map(|event| &event.data)
}

//! Whole-server tests: the real program, a real PostgreSQL, HTTP. A module for each thing that must be true.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod approval_lives;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attachments;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bills;
#[cfg(test)]
mod broken_policies;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod canaries;
#[cfg(test)]
mod cancel;
#[cfg(test)]
mod child_crashes;
#[cfg(test)]
mod child_runs;
#[cfg(test)]
mod client_tools;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod contexts;
#[cfg(test)]
mod counts;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod database_away;
#[cfg(test)]
mod database_owner;
#[cfg(test)]
mod days;
#[cfg(test)]
mod deciders;
#[cfg(test)]
mod decision_links;
#[cfg(test)]
mod deleting;
#[cfg(test)]
mod deltas;
#[cfg(test)]
mod denial;
#[cfg(test)]
mod docs;
mod evals;
#[cfg(test)]
mod exports;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod heirs;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod link_floods;
#[cfg(test)]
mod link_pages;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod looks;
mod loops;
#[cfg(test)]
mod many_streams;
#[cfg(test)]
mod mcp;
mod metrics;
#[cfg(test)]
mod models;
#[cfg(test)]
mod never_open;
#[cfg(test)]
mod output;
#[cfg(test)]
mod own_pages;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod people;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod pruning;
#[cfg(test)]
mod raw;
#[cfg(test)]
mod replays;
#[cfg(test)]
mod replays_changed;
#[cfg(test)]
mod replays_free;
#[cfg(test)]
mod request_limits;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod rolling;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod sealed_answers;
#[cfg(test)]
mod secret_keys;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod span_export;
#[cfg(test)]
mod stalled;
#[cfg(test)]
mod standing;
#[cfg(test)]
mod steering;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod summaries;
mod suspending;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod tenant_export;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod uncertain;
#[cfg(test)]
mod validation;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod workspaces;

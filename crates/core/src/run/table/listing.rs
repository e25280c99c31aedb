//! Tools of MCP servers: listed before the first step, and again before a step when they changed.

use serde_json::json;

use crate::catalog::Missing;
use crate::permission::Effect;
use crate::registry::Validation;
use crate::reply::legal_name;
use crate::run::table::replays::stage::{Other, Recorded};
use crate::run::trial::{Trial, said, with_server};
use crate::run::{Command, Event, Heir, Phase, Record, RunState, StopReason, outstanding};

fn listings(records: &[Record]) -> Vec<&[crate::agent::ToolSpec]> {
    fn list(record: &Record) -> Option<&[crate::agent::ToolSpec]> {
        if let Record::ToolsListed { tools, .. } = record { Some(tools) } else { None }
    }
    records.iter().filter_map(list).collect()
}

#[test]
fn an_agent_without_servers_needs_no_list_and_no_new_binary() {
    let trial = Trial::begun(&json!({}));
    assert_eq!((trial.state.tools.as_ref(), trial.state.version), (None, 1));
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    let text = serde_json::to_string(&trial.state).expect("JSON");
    assert!(!text.contains("\"tools\""), "{text}");
}

#[test]
fn tools_are_listed_before_the_first_step_and_called_like_any_other() {
    let mut trial = Trial::begun(&with_server(&json!({"risk": "high", "on_uncertain": "observe"})));
    assert_eq!(outstanding(&trial.state), [Command::ListTools { listing: 0 }]);
    assert!(trial.happens(trial.built(10)).is_err(), "no context before the list");
    trial.later(20);
    let records = trial.lists(&["read", "odd name"]);
    assert_eq!(listings(&records)[0].len(), 2);
    assert!(trial.tables.names().ends_with(&["tools.listed"]));
    let told = &trial.tables.events.last().expect("an event").data;
    assert_eq!(told["tools"], json!(["srv__read", "srv__odd name"]));
    assert_eq!((told["servers"].clone(), told["missing"].clone()), (json!(["srv"]), json!([])));
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);

    trial.calls(&[
        ("srv__odd name", json!({"n": 1})),
        ("srv__no such", json!({})),
        ("srv__read", json!({"n": "x"})),
    ]);
    assert_eq!(trial.stages(), ["asked", "rejected", "rejected"]);
    let said =
        trial.tables.messages.values().find(|message| !message.tool_calls.is_empty()).expect("a reply");
    assert_eq!(said.tool_calls[0].name, "srv__odd name", "a tool keeps its name");
    assert_eq!(said.tool_calls[1].name, legal_name("srv__no such"), "what is none is made legal");
    trial.approve(0);
    trial.works(0);
    let entry = trial.tables.ledger.entries.values().next().expect("an entry");
    assert_eq!((entry.row.tool_name.as_str(), entry.row.writes), ("srv__odd name", true));
    trial.says("done");
    trial.check_journal();
}

#[test]
fn a_changed_list_is_read_before_the_next_step_once() {
    let mut trial = Trial::begun_with(&["unlock"]);
    let changed = |trial: &Trial| Event::ToolsChanged { at: trial.now };
    assert!(trial.happens(changed(&trial)).is_err(), "it was just read");
    trial.calls(&[("srv__unlock", json!({}))]);
    assert!(trial.happens(changed(&trial)).is_err(), "a step is open");
    trial.works(0);
    trial.must(changed(&trial));
    assert_eq!(outstanding(&trial.state), [Command::ListTools { listing: 1 }]);
    trial.lists(&["unlock", "treasure"]);
    assert!(!trial.state.may_list_again(), "once before each step");
    trial.calls(&[("srv__treasure", json!({}))]);
    assert_eq!(trial.stages(), ["out"]);
    trial.works(0);
    trial.must(changed(&trial));
    let records = trial.lists(&["unlock", "treasure"]);
    assert!(records.is_empty(), "what is as it was is told once: {records:?}");
    trial.build();
    trial.check_journal();
}

#[test]
fn a_list_that_is_as_it_was_stands_in_the_journal_once() {
    let mut trial = Trial::begun_with(&["unlock", "treasure"]);
    let bytes = |trial: &Trial| serde_json::to_string(&trial.journal).expect("JSON").len();
    let list = |trial: &Trial| trial.state.tools.clone().expect("tools");
    let (first, tools) = (bytes(&trial), list(&trial));
    let as_it_was = |event: Event, missing: &[Missing]| {
        let Event::ToolsListed { list, .. } = event else { panic!("a list") };
        tools.is_as_it_was(&crate::catalog::hash(&list.tools), missing)
    };
    assert!(as_it_was(trial.listed(&["unlock", "treasure"]), &[]));
    assert!(!as_it_was(trial.listed(&["treasure", "unlock"]), &[]), "another order is another list");
    let gone = Missing { server: "srv".into(), reason: "it is away".into() };
    assert!(!as_it_was(trial.listed(&["unlock", "treasure"]), &[gone]));

    trial.calls(&[("srv__unlock", json!({}))]);
    trial.works(0);
    trial.must(Event::ToolsChanged { at: trial.now });
    assert_eq!(outstanding(&trial.state), [Command::ListTools { listing: 1 }]);
    let before = bytes(&trial);
    assert_eq!(trial.must(trial.kept()), [], "nothing is told, and nothing written beside the journal");
    assert!(bytes(&trial) - before < 100 && first > 800, "{first}, {before}, {}", bytes(&trial));
    let now = list(&trial);
    assert_eq!((now.due, now.listings, now.after_step), (false, 2, Some(1)));
    assert_eq!((now.hash, now.missing), (tools.hash, tools.missing));
    assert!(!trial.state.may_list_again(), "once before each step");
    trial.calls(&[("srv__treasure", json!({})), ("srv__unlock", json!({"n": "x"}))]);
    assert_eq!(trial.stages(), ["out", "rejected"], "it has the tools that it had");
    trial.check_journal();
}

#[test]
fn a_run_that_has_tools_does_not_end_for_want_of_them() {
    let mut trial = Trial::begun_with(&["read"]);
    trial.calls(&[("srv__read", json!({}))]);
    trial.works(0);
    trial.must(Event::ToolsChanged { at: trial.now });
    assert!(trial.happens(trial.unavailable()).is_err());
    // One that did without goes on without.
    let mut trial = Trial::begun(&with_server(&json!({})));
    trial.must(trial.goes_without());
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    trial.must(Event::ToolsChanged { at: trial.now });
    assert!(trial.happens(trial.unavailable()).is_err());
    trial.must(trial.kept());
    assert_eq!(trial.state.tools.as_ref().map(|tools| tools.missing.len()), Some(1));
    trial.says("done");
    trial.check_journal();
}

#[test]
fn a_run_that_an_older_server_began_asks_before_its_next_step() {
    let mut trial = Trial::begun_with(&["read"]);
    trial.calls(&[("look", json!({}))]);
    // The older server wrote none of this down.
    (trial.state.tools, trial.state.version) = (None, 1);
    let changed = |trial: &Trial| Event::ToolsChanged { at: trial.now };
    assert!(trial.happens(changed(&trial)).is_err(), "a step is open");
    trial.works(0);
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    trial.must(changed(&trial));
    assert_eq!(outstanding(&trial.state), [Command::ListTools { listing: 0 }]);
    assert_eq!(trial.state.version, 4, "no older server takes it any more");
    trial.lists(&["write"]);
    trial.calls(&[("srv__write", json!({}))]);
    assert_eq!(trial.stages(), ["out"]);
    // An agent that takes none has none to ask for.
    let mut plain = Trial::begun(&json!({}));
    assert!(plain.happens(changed(&plain)).is_err());
}

#[test]
fn tools_that_are_gone_are_no_tools_any_more() {
    let mut trial = Trial::begun_with(&["read", "write"]);
    trial.calls(&[("srv__write", json!({}))]);
    trial.works(0);
    trial.must(Event::ToolsChanged { at: trial.now });
    trial.lists(&["read"]);
    trial.calls(&[("srv__write", json!({})), ("srv__read", json!({}))]);
    assert_eq!(trial.stages(), ["rejected", "out"]);
}

#[test]
fn without_a_server_that_it_needs_a_run_ends() {
    let mut trial = Trial::begun(&with_server(&json!({})));
    trial.must(trial.unavailable());
    let end = trial.state.end.as_ref().expect("an end");
    assert_eq!((end.reason, end.step), (StopReason::ToolsUnavailable, None));
    let (answer, _) = trial.tables.ended.as_ref().expect("an end");
    assert!(answer.as_deref().is_some_and(|answer| answer.contains("srv") && answer.contains("away")));
}

#[test]
fn without_one_that_it_can_do_without_it_goes_on_and_its_contexts_say_so() {
    let mut trial = Trial::begun(&with_server(&json!({})));
    trial.must(trial.goes_without());
    let missing = vec![Missing { server: "srv".into(), reason: "it is away".into() }];
    assert_eq!(trial.state.tools.as_ref().expect("tools").missing, missing);
    let history: Vec<_> = trial.tables.messages.values().cloned().collect();
    let next =
        crate::context::next(&trial.registry, &trial.state, &history, &crate::context::Sizes::default());
    let crate::context::Next::Turn(manifest, _) = next else { panic!("a turn") };
    assert_eq!(manifest.missing_servers, missing);
    trial.calls(&[("srv__read", json!({}))]);
    assert_eq!(trial.stages(), ["rejected"]);
}

#[test]
fn a_list_is_outstanding_after_a_death_and_can_be_given_up() {
    let mut trial = Trial::begun(&with_server(&json!({})));
    trial.dies();
    assert_eq!(outstanding(&trial.state), [Command::ListTools { listing: 0 }]);
    trial.dies();
    trial.dies();
    assert_eq!(trial.state.end.as_ref().map(|end| end.reason), Some(StopReason::CrashLoop));
    let mut trial = Trial::begun(&with_server(&json!({})));
    trial.cancel();
    assert!(trial.happens(trial.listed(&["read"])).is_err(), "it comes too late");
}

#[test]
fn heirs_ask_anew() {
    let mut trial = Trial::begun_with(&["read"]);
    trial.says("done");
    let heir = Heir {
        run_id: trial.state.run_id,
        budgets: trial.state.budgets.clone(),
        messages: 1,
        effects: 0,
        counts_from: trial.now,
    };
    let state: RunState = trial.state.continued(heir);
    assert_eq!((state.tools.as_ref(), state.version), (None, 4));
    let mut trial = trial.heir(state);
    trial.must(Event::Started { at: trial.now });
    assert_eq!(
        (trial.state.phase, outstanding(&trial.state)),
        (Phase::Boundary, vec![Command::ListTools { listing: 0 }])
    );
    trial.lists(&["write"]);
    trial.calls(&[("srv__read", json!({})), ("srv__write", json!({}))]);
    assert_eq!(trial.stages(), ["rejected", "out"]);
}

#[test]
fn policies_know_them_by_their_whole_names() {
    let mut changes = with_server(&json!({}));
    changes["policy"] = json!({"rules": [{"tool": "srv__*", "effect": "deny"}]});
    let mut trial = Trial::begun(&changes);
    trial.lists(&["read"]);
    trial.replies(&said("", &[("srv__read", json!({}))]));
    let decision =
        trial.tables.calls.values().next().and_then(|call| call.decisions.first()).expect("a decision");
    assert_eq!(decision.effect, Effect::Deny);
}

#[test]
fn a_list_that_was_kept_is_kept_when_the_run_is_played_again() {
    let server = with_server(&json!({}));
    let mut trial = Trial::begun_with(&["read", "write"]);
    for _ in 0..2 {
        trial.calls(&[("srv__read", json!({}))]);
        trial.works(0);
        trial.must(Event::ToolsChanged { at: trial.now });
        trial.must(trial.kept());
    }
    trial.calls(&[("srv__write", json!({}))]);
    trial.works(0);
    trial.says("done");
    let recorded = Recorded::of(&trial, &server);
    let (again, difference) = recorded.under(&Other { agent: server, ..Other::default() });
    assert_eq!((again.state.tools.as_ref().map(|tools| tools.listings), difference), (Some(3), None));
    // An agent that takes less never gets the others.
    let less = json!({"mcp": [{"server": "srv", "allow": ["read"]}]});
    let (less, _) = recorded.under(&Other { agent: less, ..Other::default() });
    let validated: Vec<_> = less.tables.calls.values().map(|call| call.row.validation).collect();
    assert_eq!(validated, [Validation::Ok, Validation::Ok, Validation::UnknownTool]);
    assert_eq!(less.state.tools.map(|tools| tools.listings), Some(3));
}

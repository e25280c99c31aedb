//! What must be found.

use serde_json::{Value, json};

use super::{after, request, run, stage, weigh};
use crate::clients::lines::{Odd, Told};
use crate::report::Charge;

#[test]
fn runs_that_are_lost() {
    assert_eq!(after(|facts| drop(facts.runs.remove("run_2"))), [Charge::Lost]);
    let forever = after(|facts| {
        let run = run(facts, "run_3");
        run.run = json!({"status": "running", "stop_reason": null, "pending_approvals": []});
        run.events.pop();
    });
    assert_eq!(forever, [Charge::Lost, Charge::CrashLoop]);
    let waiting = after(|facts| {
        facts.told.clear();
        let run = run(facts, "run_2");
        run.run = json!({"status": "waiting_approval", "pending_approvals": [{"id": "apr_9"}]});
        run.events.pop();
    });
    assert_eq!(waiting, []);
}

#[test]
fn two_runs_for_one_request() {
    let accepted = after(|facts| {
        let mut again = facts.accepted[0].clone();
        again.run_id = "run_2".into();
        facts.accepted.push(again);
    });
    assert!(accepted.contains(&Charge::TwoRuns));
    assert_eq!(after(|facts| facts.requests[0].began.run_id = "run_9".into()), [Charge::TwoRuns]);
}

#[test]
fn effects_that_are_repeated() {
    let same_token = after(|facts| {
        let mut again = facts.effects[1].clone();
        again.key = "k1".into();
        facts.effects.push(again);
    });
    assert!(same_token.contains(&Charge::Repeated));
    assert_eq!(after(|facts| facts.effects.push(facts.effects[0].clone())), [Charge::Repeated]);
    // Asked for again with no lookup between, though nothing came of it.
    assert_eq!(after(|facts| request(facts, "t1/2.0", 2, 3900, 3950, "cut")), [Charge::Repeated]);
    assert_eq!(after(|facts| request(facts, "t2/0.0", 2, 1300, 1350, "answered 503")), []);
    // A business key that two calls send.
    assert_eq!(after(|facts| facts.requests[1].began.call_id = "tc_9".into()), [Charge::Repeated]);
}

#[test]
fn ledgers_that_are_false() {
    assert_eq!(after(|facts| drop(facts.effects.remove(0))), [Charge::FalseLedger]);
    let denies =
        |entry: &mut Value| (entry["status"], entry["side_effect"]) = ("failed".into(), "none".into());
    assert_eq!(after(|facts| denies(&mut run(facts, "run_1").ledger[0])), [Charge::FalseLedger]);
    assert_eq!(after(|facts| drop(run(facts, "run_1").ledger.remove(0))), [Charge::FalseLedger]);
    let wrong_word = after(|facts| run(facts, "run_2").ledger[0]["resolution"] = json!({"state": "applied"}));
    assert_eq!(wrong_word, [Charge::FalseLedger]);
    let open = after(|facts| run(facts, "run_2").ledger[0]["status"] = "started".into());
    assert_eq!(open, [Charge::OpenEntry]);
}

#[test]
fn owners_that_are_stale() {
    let stale = [Charge::Stale];
    // Older after newer, the same twice, two at once.
    assert_eq!(after(|facts| request(facts, "t1/0.0", 1, 3150, 3160, "answered 200")), stale);
    assert_eq!(after(|facts| request(facts, "t1/0.0", 2, 3150, 3160, "answered 200")), stale);
    assert_eq!(after(|facts| request(facts, "t1/0.0", 3, 3050, 3060, "answered 200")), []);
    let at_once = |facts: &mut crate::oracle::Facts| {
        request(facts, "t1/0.0", 3, 3110, 9000, "answered 200");
        request(facts, "t1/0.0", 4, 4000, 4100, "answered 200");
    };
    assert_eq!(after(at_once), stale);
    let excused = after(|facts| {
        at_once(facts);
        facts.stage = vec![stage("stop", 1500, 0), stage("cont", 3900, 0)];
    });
    assert_eq!(excused, []);
    let refused = weigh(&{
        let mut facts = super::green::facts();
        facts.stage = vec![stage("stop", 3500, 0), stage("cont", 4900, 0)];
        request(&mut facts, "t1/1.0", 1, 5000, 5010, "refused stale");
        facts
    });
    assert!(refused.is_green() && refused.late_and_refused == 1, "{:?}", refused.offences);
    assert_eq!(after(|facts| request(facts, "t1/1.0", 1, 5000, 5010, "refused stale")), stale);
}

#[test]
fn ends_that_change() {
    let changed = after(|facts| facts.ends[0].end["final_answer"] = "another".into());
    assert_eq!(changed, [Charge::Stale]);
    let again = after(|facts| {
        let mut other = facts.ends[0].clone();
        other.end["status"] = "failed".into();
        facts.ends.push(other);
    });
    assert_eq!(again, [Charge::Stale]);
}

#[test]
fn events_that_contradict_each_other() {
    assert_eq!(after(|facts| facts.seen[1].id = "evt_other".into()), [Charge::Stale]);
    assert_eq!(after(|facts| drop(facts.seen.remove(1))), [Charge::Gap]);
    let gap = after(|facts| {
        run(facts, "run_2").events[0]["seq"] = 7.into();
    });
    assert_eq!(gap, [Charge::Gap]);
    let two_ends = after(|facts| {
        let mut end = run(facts, "run_2").events[1].clone();
        (end["seq"], end["id"]) = (3.into(), "evt_3".into());
        run(facts, "run_2").events.push(end);
    });
    assert_eq!(two_ends, [Charge::DoubleEnd]);
    assert_eq!(after(|facts| drop(run(facts, "run_2").events.pop())), [Charge::DoubleEnd]);
    assert_eq!(
        after(|facts| run(facts, "run_2").events[1]["type"] = "run.failed".into()),
        [Charge::DoubleEnd]
    );
}

#[test]
fn words_that_do_not_hold() {
    let broken = [Charge::Promise];
    assert_eq!(after(|facts| run(facts, "run_1").approvals[1]["status"] = "approved".into()), broken);
    assert_eq!(after(|facts| run(facts, "run_1").calls[0]["result"]["content"] = "no".into()), broken);
    assert_eq!(after(|facts| run(facts, "run_1").messages.clear()), broken);
    assert_eq!(after(|facts| run(facts, "run_1").run["budgets"]["max_steps"] = 30.into()), broken);
    assert_eq!(after(|facts| facts.effects[2].input["amount"] = 5.into()), broken);
    let both = after(|facts| {
        let other = Told { word: "deny".into(), ..facts.told[0].clone() };
        facts.told.push(other);
    });
    assert_eq!(both, broken);
    let went_on = after(|facts| {
        let told = facts.told.iter_mut().find(|told| told.what == "cancel").expect("a cancel");
        told.run_id = "run_3".into();
    });
    assert_eq!(went_on, broken);
}

#[test]
fn cancelled_runs_that_go_on() {
    assert_eq!(after(|facts| request(facts, "t2/0.0", 2, 3600, 3700, "answered 503")), [Charge::Cancel]);
    assert_eq!(after(|facts| request(facts, "t2/0.0", 2, 2900, 3000, "answered 503")), []);
    let troubled = |facts: &mut crate::oracle::Facts| {
        facts.stage = vec![stage("fault.begin", 1500, 0), stage("calm", 2500, 0)];
    };
    let late = after(|facts| {
        troubled(facts);
        request(facts, "t2/0.0", 2, 3600, 3700, "answered 503");
    });
    assert_eq!(late, []);
}

#[test]
fn denied_calls_that_run() {
    let denied = after(|facts| {
        facts.told.retain(|told| told.id != "apr_1");
        run(facts, "run_1").approvals[0]["status"] = "denied".into();
    });
    assert_eq!(denied, [Charge::Denied]);
}

#[test]
fn models_that_are_asked_too_often_or_wrongly() {
    let again = |facts: &mut crate::oracle::Facts| facts.model.push(facts.model[2].clone());
    assert_eq!(after(again), [Charge::ModelAgain]);
    let recovered = after(|facts| {
        again(facts);
        run(facts, "run_1").run["attempt"] = 2.into();
    });
    assert_eq!(recovered, []);
    let handed_back = after(|facts| {
        again(facts);
        facts.stage.push(stage("death", 1040, 0));
    });
    assert_eq!(handed_back, []);
    let failed = after(|facts| {
        again(facts);
        run(facts, "run_1").events[0]["type"] = "model.failed".into();
        facts.seen.clear();
    });
    assert_eq!(failed, []);
    assert_eq!(after(|facts| facts.model[0].violation = Some("no".into())), [Charge::History]);
}

#[test]
fn poison_that_is_not_given_up() {
    let often = after(|facts| {
        for n in 2..8 {
            request(facts, "t3/0.0", n, 1000 + u64::from(n) * 1000, 1500 + u64::from(n) * 1000, "gone");
        }
    });
    assert_eq!(often, [Charge::CrashLoop]);
}

#[test]
fn runs_that_are_given_up_though_few_servers_died() {
    let given_up = |deaths: u64, pause: u64| {
        after(|facts| {
            facts.told.retain(|told| told.run_id != "run_2");
            let run = run(facts, "run_2");
            (run.run["status"], run.run["stop_reason"]) = ("failed".into(), "crash_loop".into());
            run.events[1]["type"] = "run.failed".into();
            run.events[1]["data"] = json!({"status": "failed", "stop_reason": "crash_loop"});
            facts.stage = (0..deaths).map(|n| stage("death", 1500 + n * pause, 0)).collect();
            facts.stage.insert(0, json!({"what": "stage", "at_ms": 1, "lease_ms": 100}));
        })
    };
    assert_eq!(given_up(6, 80), []);
    assert_eq!(given_up(5, 80), [Charge::CrashLoop]);
    assert_eq!(given_up(9, 10), [Charge::CrashLoop]);
}

#[test]
fn answers_that_nobody_should_get() {
    assert_eq!(after(|facts| facts.odd.push(Odd { at_ms: 1, what: "steer: 404".into() })), [Charge::Odd]);
    let broken = after(|facts| {
        facts.ends.clear();
        let run = run(facts, "run_3");
        run.run["stop_reason"] = "internal_error".into();
        run.events[1]["data"]["stop_reason"] = "internal_error".into();
    });
    assert_eq!(broken, [Charge::CrashLoop, Charge::Odd]);
}

#[test]
fn runs_that_time_out_before_their_time() {
    let timed_out = |limit: u64, stage_: Value| {
        after(|facts| {
            facts.told.retain(|told| told.run_id != "run_2");
            let run = run(facts, "run_2");
            (run.run["status"], run.run["stop_reason"]) = ("failed".into(), "timeout".into());
            run.run["budgets"]["timeout_ms"] = limit.into();
            run.events[1]["type"] = "run.failed".into();
            run.events[1]["data"] = json!({"status": "failed", "stop_reason": "timeout"});
            let end = crate::clients::lines::end_of(&run.run).expect("an end");
            facts.ends.push(crate::clients::lines::End { at_ms: 5000, run_id: "run_2".into(), end });
            facts.stage.push(stage_);
        })
    };
    assert_eq!(timed_out(4000, Value::Null), []);
    assert_eq!(timed_out(5000, json!({"what": "clock", "server": 1, "at_ms": 4000})), [Charge::Odd]);
    assert_eq!(timed_out(5000, json!({"what": "clock", "database": 3600, "at_ms": 4000})), []);
}

//! What must be true of every entry that begins, worked out from the stored rows and from what was wanted, past the code that
//! judges.

use std::collections::BTreeSet;

use answerable_core::json::input_hash;
use answerable_core::run::{ApprovalStatus, LedgerRow, Record};
use answerable_store::{ApprovalRecord, DecisionRefused};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::hand::Drafted;

/// Who counts as having started every run here.
pub(super) const CREATORS: [&str; 2] = ["key_1", "user:0"];
/// An amount that is large.
const LARGE: u64 = 50;

/// What the tenant wants of every call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// So many people must approve; 0: nobody.
    pub(super) people: u32,
    /// None of them may have started the run.
    pub(super) others: bool,
    /// Large amounts are out of the question.
    pub(super) denies_large: bool,
}

impl Wish {
    pub(super) fn policy(self, expires_ms: i64) -> Value {
        let mut rules = vec![if self.people == 0 {
            json!({"tool": "*", "effect": "allow"})
        } else {
            json!({"tool": "*", "effect": "ask", "approvals": self.people, "expires_ms": expires_ms,
                "self_approval": !self.others, "remind_every_ms": 60_000})
        }];
        if self.denies_large {
            let large = json!({"required": ["amount"], "properties": {"amount": {"minimum": LARGE}}});
            rules.push(json!({"tool": "*", "effect": "deny", "input": large}));
        }
        json!({"rules": rules, "max_denials": 50})
    }

    /// Whether these are people enough.
    fn is_met_by<'a>(self, who: impl Iterator<Item = &'a str>) -> bool {
        let has_name = |who: &str| who != "link";
        let counts = |who: &&str| {
            (self.people < 2 || has_name(who)) && (!self.others || (has_name(who) && !CREATORS.contains(who)))
        };
        who.filter(counts).collect::<BTreeSet<&str>>().len() >= self.people as usize
    }
}

/// What was met on the way: a test that meets nothing proves nothing.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) by_policy: usize,
    pub(super) by_grant: usize,
    pub(super) by_approval: usize,
    pub(super) by_quorum: usize,
    pub(super) edited: usize,
    pub(super) called_off: usize,
    pub(super) void: usize,
    pub(super) expired: usize,
    pub(super) fenced: usize,
    pub(super) inbox_first: usize,
    pub(super) lost: usize,
    pub(super) own_run: usize,
    pub(super) by_link: usize,
    pub(super) late: usize,
}

impl Seen {
    pub(super) fn decided(&mut self, decided: Result<&ApprovalRecord, &DecisionRefused>) {
        match decided {
            Err(DecisionRefused::OwnRun) => self.own_run += 1,
            Err(DecisionRefused::NobodyInParticular) => self.by_link += 1,
            Err(DecisionRefused::Expired | DecisionRefused::AlreadyDecided) => self.late += 1,
            _ => {}
        }
    }

    pub(super) fn is_worth_it(&self) {
        let Self { by_policy, by_grant, by_approval, by_quorum, edited, called_off, void, expired, .. } =
            *self;
        let Self { fenced, inbox_first, lost, own_run, by_link, late, .. } = *self;
        let began = [by_policy, by_grant, by_approval, by_quorum, edited];
        let ended = [called_off, void, expired, fenced, inbox_first, lost, own_run, by_link, late];
        assert!(began.iter().chain(&ended).all(|count| *count > 0), "not everything was met: {self:?}");
    }
}

/// Looks at what a stored commit began, under what is wanted at this moment.
pub(super) async fn check(
    look: &mut PgConnection,
    stored: &Drafted,
    wish: Wish,
    cancelled: bool,
    seen: &mut Seen,
) {
    for record in &stored.commit.records {
        match record {
            Record::ApprovalVoid { .. } => seen.void += 1,
            Record::ApprovalClosed { status: ApprovalStatus::Expired, .. } => seen.expired += 1,
            _ => {}
        }
    }
    for row in stored.opened() {
        let is_called_off = stored.commit.state.is_ended() && is_called_off(look, row).await;
        assert!(is_called_off || !cancelled, "it began after a cancel: {row:?}");
        seen.called_off += usize::from(is_called_off);
        let amount = runs(look, row, seen).await;
        assert!(!wish.denies_large || amount < LARGE, "the policy denies it: {row:?}");
        nobody_refused(look, row).await;
        match row.approval {
            Some(approval) => approved(look, row, approval.0, wish, seen).await,
            None if wish.people == 0 => seen.by_policy += 1,
            None => {
                granted(look, row, wish).await;
                seen.by_grant += 1;
            }
        }
    }
}

/// Its run ended in the same breath: it was never sent, and no client ever saw that it waits.
async fn is_called_off(look: &mut PgConnection, row: &LedgerRow) -> bool {
    let found = sqlx::query_scalar("SELECT status FROM ledger WHERE ledger_id = $1").bind(row.id.0);
    let status: String = found.fetch_one(look).await.expect("the entry");
    status == "failed" || status == "uncertain"
}

/// What runs is what the entry's hash is of; gives its amount.
async fn runs(look: &mut PgConnection, row: &LedgerRow, seen: &mut Seen) -> u64 {
    let found = sqlx::query_as("SELECT input, original_input IS NOT NULL FROM calls WHERE call_id = $1");
    let (input, edited): (Value, bool) = found.bind(row.call.0).fetch_one(look).await.expect("the call");
    assert_eq!(input_hash(&input), row.input_hash);
    seen.edited += usize::from(edited);
    input["amount"].as_u64().expect("an amount")
}

/// No approval of the call is open, denied, expired or cancelled.
async fn nobody_refused(look: &mut PgConnection, row: &LedgerRow) {
    let found = sqlx::query_scalar(
        "SELECT array_agg(status) FROM approvals WHERE call_id = $1 AND kind = 'tool_call' AND status <> 'approved'",
    );
    let others: Option<Vec<String>> = found.bind(row.call.0).fetch_one(look).await.expect("an answer");
    assert_eq!(others, None, "{row:?}");
}

/// The approval is of this call and of just this input, isn't void, wasn't used before, and enough people gave it.
async fn approved(look: &mut PgConnection, row: &LedgerRow, approval: Uuid, wish: Wish, seen: &mut Seen) {
    let found = sqlx::query_scalar(
        "SELECT count(*) FROM approvals a JOIN ledger l ON l.approval_id = a.approval_id
         WHERE a.approval_id = $1 AND a.call_id = $2 AND l.call_id = $2 AND a.run_id = l.run_id AND a.status = 'approved'
           AND a.decision = 'approve' AND a.used_at IS NOT NULL AND a.voided_at IS NULL AND a.approved_hash = $3
           AND l.input_hash = $3",
    );
    let found = found.bind(approval).bind(row.call.0).bind(&row.input_hash);
    assert_eq!(found.fetch_one(&mut *look).await.ok(), Some(1_i64), "{row:?}");
    let deciders = sqlx::query_scalar(
        "SELECT v ->> 'by' FROM approvals a, jsonb_array_elements(a.votes) v
         WHERE a.approval_id = $1 AND v ->> 'of' = 'approve ' || $2
           AND NOT EXISTS (SELECT FROM api_keys k WHERE v ->> 'key' = 'key_' || k.key_id AND k.revoked_at IS NOT NULL)",
    );
    let deciders: Vec<String> =
        deciders.bind(approval).bind(&row.input_hash).fetch_all(&mut *look).await.expect("votes");
    // What others remembered may stand where this doesn't any more.
    if !wish.is_met_by(deciders.iter().map(String::as_str)) {
        granted(look, row, wish).await;
    }
    seen.by_approval += 1;
    seen.by_quorum += usize::from(deciders.len() > 1);
}

/// A remembered approval covers it, and enough people stand behind that.
async fn granted(look: &mut PgConnection, row: &LedgerRow, wish: Wish) {
    let found = sqlx::query_scalar(
        "SELECT ARRAY(SELECT d.by FROM unnest(g.deciders, g.decider_keys) AS d(by, key)
             WHERE NOT EXISTS (SELECT FROM api_keys k WHERE k.key_id = d.key AND k.revoked_at IS NOT NULL))
         FROM grants g JOIN ledger l ON l.run_id = g.scope_id AND l.tool_name = g.tool_name
         WHERE l.ledger_id = $1 AND g.revoked_at IS NULL AND (g.input_hash IS NULL OR g.input_hash = l.input_hash)",
    );
    let grants: Vec<Vec<String>> = found.bind(row.id.0).fetch_all(look).await.expect("grants");
    let covers = |deciders: &Vec<String>| wish.is_met_by(deciders.iter().map(String::as_str));
    assert!(grants.iter().any(covers), "nobody let it begin: {row:?}");
}

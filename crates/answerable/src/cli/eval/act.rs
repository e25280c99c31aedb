//! What is done while a run goes on.

use answerable_evals::ToolRequest;
use answerable_evals::case::{Action, Answer, Approval, Body, Continue, Decision, Fork, Tools};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::follow::{Follow, Trouble, open_calls, pending, word};
use super::place::text;

impl Follow<'_> {
    /// Does an action whose time has come.
    pub(super) async fn perform(&mut self, action: &Action, run: &Value) -> Result<(), Trouble> {
        match action {
            Action::Approve(approval) => self.decide("approve", approval, run).await,
            Action::Deny(approval) => self.decide("deny", approval, run).await,
            Action::Answer(approval) => self.decide("answer", approval, run).await,
            Action::Raise(budgets) => {
                let ask = pending(run, None, true).map(|ask| word(ask, "id")).unwrap_or_default();
                self.post(
                    &["v1", "approvals", ask, "decision"],
                    &json!({"decision": "approve", "input": budgets}),
                )
                .await
            }
            Action::Resolve(resolve) => {
                let entry = self.uncertain(resolve.tool.as_deref()).await?.unwrap_or_default();
                let mut body = json!({"state": resolve.state});
                if let Some(content) = &resolve.content {
                    body["content"] = content.clone();
                }
                self.post(&["v1", "runs", self.run(), "ledger", &entry, "resolve"], &body).await
            }
            Action::ToolResult(result) => {
                let call = self.open_call(run, &result.tool).unwrap_or_default().to_owned();
                self.submit(&call, &result.content, result.error_code.as_deref()).await
            }
            Action::Steer(content) => {
                self.post(&["v1", "runs", self.run(), "messages"], &json!({"content": content})).await
            }
            Action::Cancel => self.post(&["v1", "runs", self.run(), "cancel"], &json!({})).await,
            Action::Continue(go_on) => self.heir("continue", continued(go_on)).await,
            Action::Fork(fork) => self.heir("fork", forked(fork)).await,
            Action::Wait(_) => Ok(()),
        }
    }

    /// Answers what the case has an answer for; whether there was anything.
    pub(super) async fn attend(&mut self, run: &Value) -> Result<bool, Trouble> {
        let mut attended = false;
        for call in open_calls(run) {
            let (id, tool) = (word(call, "id"), word(call, "tool_name"));
            if !self.answered.contains(id) && self.answers_by_itself(tool) {
                self.answer(id, call).await?;
                attended = true;
            }
        }
        Ok(self.repeat_decision(run).await? || attended)
    }

    /// Whether the case's tools speak for a client tool, so that nobody need be told to.
    fn answers_by_itself(&self, tool: &str) -> bool {
        let case = self.setup.case;
        let by_hand = |action: &Action| matches!(action, Action::ToolResult(result) if result.tool == tool);
        let is_known = match &case.tools {
            Tools::Scripted(scripts) => !self.setup.reach || scripts.contains_key(tool),
            Tools::Recorded(calls) => calls.iter().any(|call| call.tool_name == tool),
            Tools::Live => false,
        };
        is_known && !case.actions.iter().any(by_hand)
    }

    async fn answer(&mut self, id: &str, call: &Value) -> Result<(), Trouble> {
        let input = call.get("input").unwrap_or(&Value::Null);
        let request = ToolRequest { tool: word(call, "tool_name"), input, key: "" };
        let answer = self.setup.world.stage().take(request);
        sleep(answer.delay).await;
        let content = match &answer.body {
            Body::Json(value) => value.clone(),
            other => other.render().1.into(),
        };
        let code = answer.error_code.as_deref().or(failure(&answer));
        self.submit(id, &content, code).await
    }

    async fn submit(&mut self, call: &str, content: &Value, error_code: Option<&str>) -> Result<(), Trouble> {
        let status = if error_code.is_some() { "failed" } else { "succeeded" };
        let mut body = json!({"tool_call_id": call, "status": status, "content": content});
        if let Some(code) = error_code {
            body["error_code"] = code.into();
        }
        self.answered.insert(call.to_owned());
        self.post(&["v1", "runs", self.run(), "tool_results"], &body).await
    }

    async fn decide(&self, decision: &str, approval: &Approval, run: &Value) -> Result<(), Trouble> {
        let ask =
            pending(run, approval.tool.as_deref(), false).map(|ask| word(ask, "id")).unwrap_or_default();
        self.decide_on(ask, decision, approval).await
    }

    async fn decide_on(&self, ask: &str, decision: &str, approval: &Approval) -> Result<(), Trouble> {
        let mut body = Map::from_iter([("decision".to_owned(), decision.into())]);
        let mut put =
            |name: &str, value: Option<Value>| value.map(|value| body.insert(name.to_owned(), value));
        put("input", approval.input.clone().map(Value::Object));
        put("content", approval.content.clone());
        put("reason", approval.reason.clone().map(Value::from));
        put("remember", approval.remember.clone().map(Value::Object));
        let headers = approval.by.as_deref().map(acting).transpose()?;
        let api = &self.setup.guest.api;
        let url = api.url(&["v1", "approvals", ask, "decision"]);
        let headers: Vec<_> = headers.into_iter().collect();
        api.send(Method::POST, url, Some(&Value::Object(body)), &headers).await?;
        Ok(())
    }

    /// Decides as people did in the run that the case was made from, unless the case says itself what they do.
    async fn repeat_decision(&mut self, run: &Value) -> Result<bool, Trouble> {
        let case = self.setup.case;
        let decides = |action: &Action| {
            matches!(action, Action::Approve(_) | Action::Deny(_) | Action::Answer(_) | Action::Raise(_))
        };
        if case.actions.iter().any(decides) {
            return Ok(false);
        }
        let asks = run.get("pending_approvals").and_then(Value::as_array).into_iter().flatten();
        for ask in asks {
            let fits = |n: &usize| !self.used[*n] && case.decisions[*n].is_on(ask);
            let Some(n) = (0..case.decisions.len()).find(fits) else { continue };
            self.used[n] = true;
            self.decide_again(ask, &case.decisions[n]).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A recorded decision once more, by as many people as it takes, and by others than the key that started the run where
    /// that one may not.
    async fn decide_again(&self, ask: &Value, decision: &Decision) -> Result<(), Trouble> {
        let said = decision.word().unwrap_or_default();
        let required = ask.get("required").and_then(Value::as_u64).unwrap_or(1);
        let people = if said == "approve" { required } else { 1 };
        let others = people > 1 || ask.get("self_approval").and_then(Value::as_bool) == Some(false);
        for n in 1..=people {
            let by = others.then(|| format!("person-{n}"));
            self.decide_on(word(ask, "id"), said, &Approval { by, ..decision.again() }).await?;
        }
        Ok(())
    }

    /// A new run that stands on the one that is followed, and is followed from now on.
    async fn heir(&mut self, how: &str, body: Value) -> Result<(), Trouble> {
        let run = self.setup.guest.api.post(&["v1", "runs", self.run(), how], &body).await?;
        let id =
            text(&run, "id").map_err(|failure| Trouble(failure.message().unwrap_or_default().to_owned()))?;
        self.runs.push(id);
        Ok(())
    }

    async fn post(&self, path: &[&str], body: &Value) -> Result<(), Trouble> {
        self.setup.guest.api.post(path, body).await?;
        Ok(())
    }
}

/// The code of a client tool's failure, by what the answer would mean over HTTP.
fn failure(answer: &Answer) -> Option<&'static str> {
    Some(match answer.status {
        ..300 => return None,
        401 | 403 => "PERMISSION_DENIED",
        404 | 410 => "NOT_FOUND",
        409 | 412 => "CONFLICT",
        429 => "RATE_LIMITED",
        400..=499 => "INVALID_ARGUMENTS",
        _ => "UNAVAILABLE",
    })
}

fn acting(name: &str) -> Result<(HeaderName, HeaderValue), Trouble> {
    let value =
        HeaderValue::try_from(name).map_err(|_| Trouble(format!("as: {name:?} is no header value")))?;
    Ok((HeaderName::from_static("x-acting-user"), value))
}

fn continued(go_on: &Continue) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| value.map(|value| body.insert(name.to_owned(), value));
    put("budgets", go_on.budgets.clone().map(Value::Object));
    put("input", go_on.input.clone());
    Value::Object(body)
}

fn forked(fork: &Fork) -> Value {
    let mut body = json!({"after_step": fork.after_step});
    if let Some(input) = &fork.input {
        body["input"] = input.clone();
    }
    if let Some(effects) = &fork.effects {
        body["effects"] = effects.clone().into();
    }
    body
}

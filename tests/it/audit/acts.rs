//! Every operation leaves just the entries that the document says, and no secret in them.

mod book;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use self::book::{Book, id};
use super::{done_after, entries, last};
use crate::harness::{Fits, Run, With, World, client_tool, rules, until};

#[tokio::test]
async fn every_operation_leaves_the_entries_that_the_document_says() {
    let world = World::shared().await;
    let mut book = Book::open(&world).await;
    settings(&mut book).await;
    agents(&mut book).await;
    webhooks(&mut book).await;
    decisions(&mut book).await;
    bulk_decisions(&mut book).await;
    runs(&mut book).await;
    busy_threads(&mut book).await;
    schedules(&mut book).await;
    effects(&mut book).await;
    files(&mut book).await;
    operators(&mut book).await;
    book.close();
    let text: String = entries(&world.client).await.iter().map(Value::to_string).collect();
    for secret in ["canary", world.provider_key()] {
        assert!(!text.contains(secret), "a secret is in the record");
    }
    assert!(!text.contains("whsec_") && !text.contains("ans_"));
}

async fn settings(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    for (kind, name, body) in [
        ("secrets", "shop", json!({"value": "canary-1"})),
        (
            "providers",
            "alt",
            json!({"kind": "openai_chat", "base_url": "http://127.0.0.1:9/v1/canary?key=canary", "api_key": "canary-2",
                "headers": {"x-canary": "canary-3"}}),
        ),
        (
            "mcp_servers",
            "files",
            json!({"url": "http://127.0.0.1:9/mcp/canary?token=canary", "headers": {"x-token": "{{secret.shop}}"}}),
        ),
    ] {
        let (path, template) = (format!("/v1/{kind}/{name}"), format!("/v1/{kind}/{{name}}"));
        let singular = kind.trim_end_matches('s');
        let put = format!("{singular}.put");
        book.act(&format!("PUT {template}"), client.put(&path, &body), &[(&put, name)]).await;
        let delete = format!("{singular}.delete");
        if kind != "secrets" {
            book.act(&format!("DELETE {template}"), client.delete(&path), &[(&delete, name)]).await;
        }
    }
    book.act("DELETE /v1/secrets/{name}", client.delete("/v1/secrets/shop"), &[("secret.delete", "shop")])
        .await;
    let tenant = &book.world.tenant.clone();
    let policy = client.put("/v1/policy", &rules(&[json!({"tool": "never", "effect": "deny"})])["policy"]);
    book.act("PUT /v1/policy", policy, &[("policy.put", tenant)]).await;
    let rotate = client.post("/v1/signing_secret/rotate", &json!({}));
    book.act("POST /v1/signing_secret/rotate", rotate, &[("signing_secret.rotate", "tools")]).await;
    book.act("GET /v1/export", client.get("/v1/export"), &[("tenant.export", tenant)]).await;
}

async fn agents(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let spec = book.world.agent(&[]);
    let made = book.act("POST /v1/agents", client.post("/v1/agents", &spec), &[("agent.create", "*")]).await;
    let (agent, path) = (id(&made), format!("/v1/agents/{}", id(&made)));
    let changed = spec.with(json!({"instructions": "Help better."}));
    let update = client.put(&path, &changed);
    book.act("PUT /v1/agents/{agent_id}", update, &[("agent.update", &agent)]).await;
    book.act("DELETE /v1/agents/{agent_id}", client.delete(&path), &[("agent.archive", &agent)]).await;
}

async fn webhooks(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let hook = json!({"url": format!("{}/canary?token=canary", book.world.tools.url("hook")), "events": ["run.finished"]});
    let made =
        book.act("POST /v1/webhooks", client.post("/v1/webhooks", &hook), &[("webhook.create", "*")]).await;
    let (hook, path) = (id(&made), format!("/v1/webhooks/{}", id(&made)));
    let of = "/v1/webhooks/{webhook_id}";
    let change = client.patch(&path, &json!({"events": ["run.*"]}));
    book.act(&format!("PATCH {of}"), change, &[("webhook.update", &hook)]).await;
    let rotate = client.post(&format!("{path}/rotate_secret"), &json!({}));
    book.act(&format!("POST {of}/rotate_secret"), rotate, &[("webhook.rotate_secret", &hook)]).await;
    let test = client.post(&format!("{path}/test"), &json!({}));
    let delivery = book.act(&format!("POST {of}/test"), test, &[("webhook.test", &hook)]).await;
    let again = client.post(&format!("{path}/deliveries/{}/redeliver", id(&delivery)), &json!({}));
    let redeliver = format!("POST {of}/deliveries/{{delivery_id}}/redeliver");
    book.act(&redeliver, again, &[("webhook.redeliver", &hook)]).await;
    book.act(&format!("DELETE {of}"), client.delete(&path), &[("webhook.delete", &hook)]).await;
}

/// A run that asks so many people whether it may pay.
async fn asking<'w>(world: &'w World, people: i64) -> (Run<'w>, String) {
    let policy = rules(&[json!({"tool": "pay", "effect": "ask", "approvals": people})]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let run = world.start(&world.agent(&[world.write("pay")]).with(policy)).await;
    let approval = run.pending().await;
    (run, approval)
}

async fn decisions(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let (run, approval) = asking(book.world, 2).await;
    let path = format!("/v1/approvals/{approval}/decision");
    let operation = "POST /v1/approvals/{approval_id}/decision";
    let approve = json!({"decision": "approve", "remember": {"scope": "run", "match": "tool"}});
    book.world.model.script("m", [ModelReply::text("Done.")]);
    let vote = |user: &str| client.post(&path, &approve).header("x-acting-user", user);
    book.act(operation, vote("ann"), &[("approval.vote", &approval)]).await;
    book.act(operation, vote("ann"), &[]).await;
    book.act(operation, vote("bob"), &[("approval.decide", &approval), ("grant.create", "*")]).await;
    book.act(operation, vote("cid"), &[]).await;
    run.ended().await;
    let grants = client.get(&format!("/v1/grants?run_id={}", run.id)).await.ok();
    let grant = id(&grants["data"][0]);
    let revoke = || client.delete(&format!("/v1/grants/{grant}"));
    book.act("DELETE /v1/grants/{grant_id}", revoke(), &[("grant.revoke", &grant)]).await;
    book.act("DELETE /v1/grants/{grant_id}", revoke(), &[]).await;
}

async fn bulk_decisions(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let (one, first) = asking(book.world, 1).await;
    let (two, second) = asking(book.world, 2).await;
    book.world.model.script("m", [ModelReply::text("Done."), ModelReply::text("Done.")]);
    let body = json!({"decisions": [
        {"approval_id": first, "decision": "approve", "remember": {"scope": "run", "match": "exact_input"}},
        {"approval_id": "apr_00000000-0000-7000-8000-000000000000", "decision": "approve"},
        {"approval_id": second, "decision": "approve"},
    ]});
    let wanted =
        [("approval.decide", first.as_str()), ("grant.create", "*"), ("approval.vote", second.as_str())];
    book.act("POST /v1/approvals/decisions", client.post("/v1/approvals/decisions", &body), &wanted).await;
    one.ended().await;
    two.deny("no").await;
    two.ended().await;
    book.skip().await;
}

async fn runs(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let world = book.world;
    world.model.script("m", [ModelReply::calls([("ask_user", json!({}))])]);
    let spec = world.agent(&[client_tool("ask_user")]);
    let started = client.post("/v1/runs", &json!({"agent": spec, "input": "go"}));
    let run = world.run(&book.act("POST /v1/runs", started, &[]).await);
    let call = run.open_call().await;
    let steer = client.post(&run.path("/messages"), &json!({"content": "be quick"}));
    book.act("POST /v1/runs/{run_id}/messages", steer, &[]).await;
    let change = client.patch(&run.path(""), &json!({"metadata": {"owner": "ann"}}));
    book.act("PATCH /v1/runs/{run_id}", change, &[("run.update", &run.id)]).await;
    let answer = json!({"tool_call_id": call, "status": "succeeded", "content": "yes"});
    world.model.script("m", [ModelReply::calls([("ask_user", json!({"again": true}))])]);
    book.act("POST /v1/runs/{run_id}/tool_results", client.post(&run.path("/tool_results"), &answer), &[])
        .await;
    run.open_call().await;
    let cancel = || client.post(&run.path("/cancel"), &json!({"reason": "canary"}));
    book.act("POST /v1/runs/{run_id}/cancel", cancel(), &[("run.cancel", &run.id)]).await;
    run.ended().await;
    book.act("POST /v1/runs/{run_id}/cancel", cancel(), &[]).await;
    book.act("DELETE /v1/runs/{run_id}", client.delete(&run.path("")), &[("run.delete", &run.id)]).await;
}

async fn busy_threads(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let thread = client.post("/v1/threads", &json!({})).await.is(201);
    let (spec, thread) = (book.world.agent(&[client_tool("ask_user")]), json!({"thread_id": thread["id"]}));
    book.world.model.script("m", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Done.")]);
    let first = book.world.start_with(&spec, thread.clone()).await;
    first.open_call().await;
    let body = json!({"agent": spec, "input": "go", "on_busy": "cancel_previous"}).with(thread);
    let started = client.post("/v1/runs", &body);
    let next = book.act("POST /v1/runs", started, &[("run.cancel", &first.id)]).await;
    book.world.run(&next).ended().await;
}

/// Made, changed, fired in a thread that is busy, deleted.
async fn schedules(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let thread = client.post("/v1/threads", &json!({})).await.is(201);
    let (spec, thread) = (book.world.agent(&[client_tool("ask_user")]), json!({"thread_id": thread["id"]}));
    book.world.model.script("m", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Done.")]);
    let busy = book.world.start_with(&spec, thread.clone()).await;
    busy.open_call().await;
    let run = json!({"agent": spec, "input": "canary", "on_busy": "cancel_previous"}).with(thread);
    let body = json!({"name": "nightly", "cron": "0 0 1 1 *", "run": run});
    let create = client.post("/v1/schedules", &body);
    let made = book.act("POST /v1/schedules", create, &[("schedule.create", "*")]).await;
    let (schedule, path) = (id(&made), format!("/v1/schedules/{}", id(&made)));
    let pause = client.patch(&path, &json!({"paused": true}));
    book.act("PATCH /v1/schedules/{schedule_id}", pause, &[("schedule.update", &schedule)]).await;
    let same = client.patch(&path, &json!({"paused": true, "name": "nightly"}));
    book.act("PATCH /v1/schedules/{schedule_id}", same, &[]).await;
    let trigger = client.post(&format!("{path}/trigger"), &json!({}));
    let wanted = [("run.cancel", busy.id.as_str()), ("schedule.trigger", schedule.as_str())];
    let fired = book.act("POST /v1/schedules/{schedule_id}/trigger", trigger, &wanted).await;
    book.world.run(&fired).ended().await;
    let delete = client.delete(&path);
    book.act("DELETE /v1/schedules/{schedule_id}", delete, &[("schedule.delete", &schedule)]).await;
}

async fn effects(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let world = book.world;
    world.tools.script("pay", [ToolAnswer::cut()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"on_uncertain": "ask"}))])).await;
    let approval = run.pending().await;
    let ledger = id(&run.list("ledger").await[0]);
    let resolve = client.post(&run.path(&format!("/ledger/{ledger}/resolve")), &json!({"state": "applied"}));
    world.model.script("m", [ModelReply::text("Paid.")]);
    let wanted = [("ledger.resolve", ledger.as_str()), ("approval.decide", approval.as_str())];
    book.act("POST /v1/runs/{run_id}/ledger/{ledger_id}/resolve", resolve, &wanted).await;
    let decided = entries(client).await.pop().expect("an entry");
    decided["detail"]
        .fits(&json!({"run_id": run.id, "call_id": "~tc_", "kind": "uncertain_effect", "tool_name": "pay",
        "decision": "approve"}));
    run.ended().await;
    let limits = json!({"budgets": {"max_steps": 1, "on_exhausted": "ask"}});
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[world.read("look")]).with(limits)).await;
    let approval = run.pending().await;
    let raise = client.patch(&run.path(""), &json!({"budgets": {"max_steps": 3}}));
    let wanted = [("approval.decide", approval.as_str()), ("run.update", run.id.as_str())];
    book.act("PATCH /v1/runs/{run_id}", raise, &wanted).await;
    let decided = entries(client).await.into_iter().rfind(|entry| entry["action"] == "approval.decide");
    decided.expect("an entry")["detail"]
        .fits(&json!({"run_id": run.id, "decision": "approve", "kind": "budget"}));
    run.ended().await;
}

async fn files(book: &mut Book<'_>) {
    let client = &book.world.client.clone();
    let thread = book.act("POST /v1/threads", client.post("/v1/threads", &json!({})), &[]).await;
    let workspace = thread["workspace_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/workspaces/{workspace}/files/canary.txt");
    let template = "/v1/workspaces/{workspace_id}/files/{path}";
    let put = client.ask(reqwest::Method::PUT, &path).raw("text/plain", "canary");
    book.act(&format!("PUT {template}"), put, &[("file.put", &workspace)]).await;
    book.act(&format!("DELETE {template}"), client.delete(&path), &[("file.delete", &workspace)]).await;
    let delete = client.delete(&format!("/v1/threads/{}", id(&thread)));
    book.act("DELETE /v1/threads/{thread_id}", delete, &[("thread.delete", &id(&thread))]).await;
}

async fn operators(book: &mut Book<'_>) {
    let operator = &book.world.server.operator();
    let tenant = book.world.tenant.clone();
    let path = format!("/v1/tenants/{tenant}");
    let of = "/v1/tenants/{tenant_id}";
    let change = operator.patch(&path, &json!({"quotas": {"weight": 2}}));
    book.act(&format!("PATCH {of}"), change, &[("tenant.update", &tenant)]).await;
    let key = operator.post(&format!("{path}/keys"), &json!({"name": "k", "scopes": ["runs:read"]}));
    let key = id(&book.act(&format!("POST {of}/keys"), key, &[("key.create", "*")]).await);
    let rotate = operator.post(&format!("{path}/keys/{key}/rotate"), &json!({}));
    book.act(&format!("POST {of}/keys/{{key_id}}/rotate"), rotate, &[("key.rotate", &key)]).await;
    let revoke = || operator.delete(&format!("{path}/keys/{key}"));
    book.act(&format!("DELETE {of}/keys/{{key_id}}"), revoke(), &[("key.revoke", &key)]).await;
    book.act(&format!("DELETE {of}/keys/{{key_id}}"), revoke(), &[]).await;
    let export = operator.get(&format!("{path}/export"));
    book.act(&format!("GET {of}/export"), export, &[("tenant.export", &tenant)]).await;
    let change = operator.patch(&path, &json!({"name": "renamed"}));
    book.of_operator(&format!("PATCH {of}"), change, "tenant.update").await;
    for (suspended, action) in [(true, "tenant.suspend"), (false, "tenant.resume")] {
        let change = operator.patch(&path, &json!({"suspended": suspended}));
        book.of_operator(&format!("PATCH {of}"), change, action).await;
    }
    let client = &book.world.client;
    until("its keys are good again", async || client.get("/v1/audit").await.status != 403).await;
    book.skip().await;
    book.act(&format!("PATCH {of}"), operator.patch(&path, &json!({"name": "renamed"})), &[]).await;
    book.of_operator(
        "POST /v1/tenants",
        operator.post("/v1/tenants", &json!({"name": "brief"})),
        "tenant.create",
    )
    .await;
    let brief = operator.post("/v1/tenants", &json!({"name": "brief"})).await.is(201);
    let delete = operator.delete(&format!("/v1/tenants/{}", id(&brief)));
    book.of_operator(&format!("DELETE {of}"), delete, "tenant.delete").await;
}

#[tokio::test]
async fn what_is_refused_or_sent_again_leaves_nothing() {
    let world = World::shared().await;
    let spec = world.agent(&[]);
    let before = last(&world.client).await;
    world
        .client
        .post("/v1/agents", &spec.clone().with(json!({"model": {"provider": "none", "model": "m"}})))
        .await
        .refused(422, "invalid_request");
    world
        .client
        .put("/v1/policy", &json!({"rules": [{"tool": "x", "effect": "perhaps"}]}))
        .await
        .refused(422, "invalid_request");
    world.client.delete("/v1/secrets/none").await.refused(404, "not_found");
    let reader = world.key(&["runs:read"]).await;
    reader.put("/v1/secrets/shop", &json!({"value": "x"})).await.refused(403, "forbidden");
    assert_eq!(done_after(&world.client, before).await, ["key.create"]);
    for again in [false, true] {
        let made = world.client.post("/v1/agents", &spec).once("one-agent").await;
        assert_eq!(made.is_replayed(), again);
    }
    assert_eq!(done_after(&world.client, before).await, ["key.create", "agent.create"]);
    let made = &entries(&world.client).await.pop().expect("an entry");
    made.fits(&json!({"detail": {"name": "*", "version": 1, "spec_hash": "~sha256:"}}));
}

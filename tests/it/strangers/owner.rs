//! A tenant that has one of everything, and what of it nobody else may ever be told.

use std::collections::{BTreeMap, BTreeSet};

use answerable_testkit::{ModelReply, ToolAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::operations::{For, Operation, operations};
use crate::harness::{Answer, Client, Run, With, World, client_tool};

/// Stands in whatever the owner wrote.
const WORD: &str = "owners-word";

/// What is asked for by the owner and isn't theirs alone, or isn't the same twice: lists of all tenants, which tests beside this
/// one make; the tools of an MCP server, which is asked; a wait, which only takes long; exports, which are written down.
const NO_STATE: [&str; 6] = [
    "/v1/tenants",
    "/v1/tenants/audit",
    "/v1/mcp_servers/{name}/tools",
    "/v1/runs/{run_id}/wait",
    "/v1/export",
    "/v1/tenants/{tenant_id}/export",
];

/// The owner: a run that waits for two people, and everything else that a tenant can have.
pub(super) struct Owner<'w> {
    world: &'w World,
    pub(super) run: Run<'w>,
    /// By the names that paths have for them.
    pub(super) ids: Vec<(&'static str, String)>,
    /// Ids, names and contents.
    marks: BTreeSet<String>,
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("{value} has no id")).to_owned()
}

impl<'w> Owner<'w> {
    /// Makes the world's tenant have one of everything.
    pub(super) async fn new(world: &'w World) -> Self {
        let client = &world.client;
        let mut ids = settings(world).await;
        let thread = client.post("/v1/threads", &json!({"metadata": {"topic": WORD}})).await.is(201);
        let workspace = thread["workspace_id"].as_str().expect("an id").to_owned();
        let path = format!("{WORD}.txt");
        let file = client.ask(Method::PUT, &format!("/v1/workspaces/{workspace}/files/{path}"));
        file.raw("text/plain", format!("{WORD} in a file")).await.ok();
        let (run, agent) = waiting(world, &id(&thread)).await;
        let (ledger, artifacts) = (run.list("ledger").await, run.list("artifacts").await);
        let pending = run.now().await;
        let approval = id(&pending["pending_approvals"][0]);
        let call = id(&pending["pending_tool_calls"][0]);
        let schedule = json!({"name": WORD, "cron": "@yearly", "paused": true, "metadata": {"topic": WORD},
            "run": {"agent_id": agent, "input": WORD}});
        let schedule = client.post("/v1/schedules", &schedule).await.is(201);
        ids.extend([
            ("schedule_id", id(&schedule)),
            ("run_id", run.id.clone()),
            ("thread_id", id(&thread)),
            ("agent_id", agent),
            ("approval_id", approval),
            ("artifact_id", id(&artifacts[0])),
            ("ledger_id", id(&ledger[0])),
            ("call_id", call),
            ("grant_id", granted(world).await),
            ("workspace_id", workspace),
            ("path", path),
            ("number", "1".to_owned()),
        ]);
        let mut owner = Self { world, run, ids, marks: BTreeSet::new() };
        owner.marks = owner.marked().await;
        owner
    }

    pub(super) fn id(&self, name: &str) -> &str {
        self.ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.as_str()).expect("an id")
    }

    /// Every operation, with the owner's ids.
    pub(super) fn operations(&self) -> Vec<Operation> {
        operations(&self.ids)
    }

    /// All that the owner and the operator can see of it, by path. What only time changes is left out.
    pub(super) async fn state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for operation in self.operations() {
            let client = match operation.whose {
                For::Scopes(_) => self.world.client.clone(),
                For::Operator => self.world.server.operator(),
                For::Anybody | For::Links => continue,
            };
            if operation.method == Method::GET && !NO_STATE.contains(&operation.template.as_str()) {
                let answer = operation.ask(&client).await;
                assert!(answer.status < 300, "{answer}");
                state.insert(operation.path.clone(), timeless(answer.body).to_string());
            }
        }
        assert!(state.len() > 40, "{} of the owner's things", state.len());
        state
    }

    /// No answer to somebody else holds anything of the owner's. What they sent themselves may come back.
    #[track_caller]
    pub(super) fn is_not_in(&self, answer: &Answer, sent: &str) {
        let told = self.marks.iter().find(|mark| answer.holds(mark) && !sent.contains(*mark));
        assert_eq!(told, None, "{answer}");
    }

    /// Everything that must stay here: the word, and whatever looks like an id in what the owner sees.
    async fn marked(&self) -> BTreeSet<String> {
        let mut marks = BTreeSet::from([WORD.to_owned()]);
        for text in self.state().await.values() {
            let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
            marks.extend(words.filter(|word| uuid::Uuid::try_parse(word).is_ok()).map(str::to_owned));
        }
        assert!(marks.len() > 20, "{marks:?}");
        marks
    }
}

/// Without what changes by itself: when a key was used last.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "last_used_at");
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| *one = timeless(one.take())),
        _ => (),
    }
    value
}

async fn settings(world: &World) -> Vec<(&'static str, String)> {
    let client = &world.client;
    client.put("/v1/secrets/shop", &json!({"value": format!("{WORD}-secret")})).await.ok();
    let provider =
        json!({"base_url": world.model.base_url(), "headers": {"x-team": WORD}, "kind": "openai_chat"});
    client.put("/v1/providers/shop", &provider).await.ok();
    let server = json!({"url": format!("{}/{WORD}", world.tools.url("mcp"))});
    client.put("/v1/mcp_servers/shop", &server).await.ok();
    let policy = json!({"rules": [{"tool": "never", "effect": "deny", "reason": WORD}]});
    client.put("/v1/policy", &policy).await.ok();
    let hook = json!({"url": world.tools.url("hook"), "events": ["run.imagined"], "description": WORD});
    let hook = client.post("/v1/webhooks", &hook.with(json!({"events": ["run.failed"]}))).await.is(201);
    let test = format!("/v1/webhooks/{}/test", id(&hook));
    world.tools.script("hook", [ToolAnswer::text("ok")]);
    let delivery = client.post(&test, &json!({})).await.is(202);
    delivered(client, &id(&hook)).await;
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let key = json!({"name": WORD, "scopes": ["runs:read"]});
    let key = world.server.operator().post(&keys, &key).await.is(201);
    vec![
        ("name", "shop".to_owned()),
        ("webhook_id", id(&hook)),
        ("delivery_id", id(&delivery)),
        ("tenant_id", world.tenant.clone()),
        ("key_id", id(&key)),
    ]
}

/// The test of a webhook is done with: nothing changes by itself any more.
async fn delivered(client: &Client, hook: &str) {
    for _ in 0..2000 {
        let list = client.get(&format!("/v1/webhooks/{hook}/deliveries")).await.ok();
        if list["data"][0]["status"] != "pending" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the webhook was not told");
}

/// A run that has read something long and waits for a person and for a client.
async fn waiting<'w>(world: &'w World, thread: &str) -> (Run<'w>, String) {
    world.tools.script("read_log", [ToolAnswer::text(&format!("{WORD} ").repeat(100))]);
    let tools = [
        world.read("read_log").with(json!({"output": {"max_chars": 50}})),
        world.write("pay").with(json!({"risk": "high"})),
        client_tool("ask_user").with(json!({"parallel_safe": true})),
    ];
    let spec = world.agent(&tools).with(json!({"instructions": format!("Say {WORD}.")}));
    let agent = world.client.post("/v1/agents", &spec).await.is(201);
    world.model.script(
        "m",
        [
            ModelReply::calls([("read_log", json!({}))]),
            ModelReply::calls([("pay", json!({"to": WORD})), ("ask_user", json!({"what": WORD}))]),
        ],
    );
    let body = json!({"agent_id": agent["id"], "thread_id": thread, "input": WORD, "context": {"who": WORD},
        "metadata": {"order": WORD}, "concurrency_key": WORD});
    let run = world.client.post("/v1/runs", &body).await.is(201);
    let run = world.run(&run);
    let both = |run: &Value| {
        ["pending_approvals", "pending_tool_calls"]
            .iter()
            .all(|name| run[*name].as_array().is_some_and(|all| !all.is_empty()))
    };
    run.when("both", both).await;
    (run, id(&agent))
}

/// A grant, of a run of its own.
async fn granted(world: &World) -> String {
    let tools = [world.write("pay").with(json!({"risk": "high"}))];
    let agent = world.agent(&tools).with(json!({"model": {"provider": "main", "model": "n"}}));
    world.model.script("n", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&agent).await;
    run.decide(&json!({"decision": "approve", "remember": {"scope": "run", "match": "tool"}})).await.ok();
    run.ended().await;
    let grants = world.client.get("/v1/grants").await.ok();
    id(&grants["data"][0])
}

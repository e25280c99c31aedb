//! What `/metrics` tells after a busy hour, and what it never tells.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Fits, Run, With, World, rules};

/// All labels that there are.
const LABELS: [&str; 20] = [
    "effect",
    "error_code",
    "error_type",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "gen_ai_token_type",
    "http_request_method",
    "http_response_status_code",
    "http_route",
    "kind",
    "le",
    "limit",
    "reason",
    "state",
    "status",
    "stop_reason",
    // Of the export of metrics themselves.
    "otel_metric_overflow",
    "service_name",
    "service_instance_id",
];

/// One line of the text form.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What `/metrics` says, read strictly.
struct Page {
    text: String,
    samples: Vec<Sample>,
}

impl Page {
    async fn of(world: &World) -> Self {
        let text = world.server.stranger().get("/metrics").await.text;
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(sample).collect();
        Self { text, samples }
    }

    /// The sum over all series of this name that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(name, value)| sample.labels.get(*name).is_some_and(|known| known == value))
        };
        self.samples.iter().filter(fits).map(|sample| sample.value).sum()
    }

    #[track_caller]
    fn is(&self, name: &str, labels: &[(&str, &str)], wanted: f64) {
        let found = self.sum(name, labels);
        assert!(
            (found - wanted).abs() < 1e-6,
            "{name}{labels:?} is {found}, not {wanted}, in\n{}",
            self.text
        );
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}').expect("a closed brace");
    let pairs = labels.split_terminator("\",").map(|pair| {
        let (name, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    });
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    Sample { name: name.to_owned(), labels: pairs.collect(), value }
}

/// A family's name by the name of a sample.
fn family<'n>(name: &'n str, types: &BTreeMap<&str, &str>) -> &'n str {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    parts.into_iter().find(|base| types.get(base) == Some(&"histogram")).unwrap_or(name)
}

async fn start<'w>(world: &'w World, replies: Vec<ModelReply>, tool: &str, changes: Value) -> Run<'w> {
    world.model.script("m", replies);
    let agent = world.agent(&[world.write(tool), world.read("look")]).with(changes);
    world.start(&agent).await
}

fn call(tool: &str) -> ModelReply {
    ModelReply::calls([(tool, json!({"n": 1}))])
}

/// Runs of all kinds; their ids.
async fn be_busy(world: &World) -> Vec<String> {
    let priced = json!({"prices": {"m": {"input_microusd_per_mtok": 1_000_000, "output_microusd_per_mtok": 2_000_000}}});
    world.provider(&world.client, priced).await;
    world.tools.script("look", [ToolAnswer::text("seen"), ToolAnswer::status(404)]);
    world.tools.script("pay", [ToolAnswer::cut()]);
    let mut ids = Vec::new();
    let mut end = async |run: Run<'_>, how: Value| {
        run.ended().await.fits(&how);
        ids.push(run.id);
    };
    let twice = vec![call("look"), call("look"), ModelReply::status(429), ModelReply::text("Done.")];
    let twice = start(world, twice, "pay", json!({"loop_guard": {"max_repeated_calls": 9}})).await;
    end(twice, json!({"status": "finished"})).await;
    let budget = start(world, vec![call("look")], "pay", json!({"budgets": {"max_steps": 1}})).await;
    end(budget, json!({"stop_reason": "max_steps"})).await;
    let denies = rules(&[json!({"tool": "look", "effect": "deny"})]);
    let denied = start(world, vec![call("look"), ModelReply::text("No.")], "pay", denies).await;
    end(denied, json!({"status": "finished"})).await;
    let refused = start(world, vec![ModelReply::status(400)], "pay", json!({})).await;
    end(refused, json!({"stop_reason": "model_error"})).await;
    let uncertain = start(world, vec![call("pay")], "pay", json!({})).await;
    end(uncertain, json!({"stop_reason": "side_effect_uncertain"})).await;
    ids
}

#[tokio::test]
async fn they_tell_what_happened_of_all_and_of_nobody() {
    let world = World::alone().await;
    let mut secrets = be_busy(&world).await;
    let asks = rules(&[json!({"tool": "pay", "effect": "ask"})]);
    let waits = start(&world, vec![call("pay")], "pay", asks).await;
    waits.waiting().await;
    let page = Page::of(&world).await;

    page.is("answerable_runs_total", &[("status", "started")], 6.0);
    page.is("answerable_runs_total", &[("status", "finished"), ("stop_reason", "final_answer")], 2.0);
    page.is("answerable_runs_total", &[("stop_reason", "side_effect_uncertain")], 1.0);
    page.is("answerable_budget_stops_total", &[("limit", "max_steps")], 1.0);
    page.is("answerable_budget_stops_total", &[], 1.0);
    page.is("answerable_permission_decisions_total", &[("effect", "deny")], 1.0);
    page.is("answerable_permission_decisions_total", &[("effect", "ask")], 1.0);
    page.is("answerable_approvals_total", &[("status", "requested")], 1.0);
    page.is("answerable_run_claim_to_start_seconds_count", &[], 6.0);
    page.is("answerable_run_accepted_to_start_seconds_count", &[], 6.0);
    assert!(page.sum("answerable_run_accepted_to_start_seconds_sum", &[]) < 60.0, "{}", page.text);
    // All but the one that waits for people.
    page.is("answerable_steps_total", &[], 9.0);
    page.is("answerable_step_duration_seconds_count", &[], 8.0);

    let chat = [
        ("gen_ai_operation_name", "chat"),
        ("gen_ai_provider_name", "openai"),
        ("gen_ai_request_model", "m"),
    ];
    let with = |label| [&chat[..], &[label]].concat();
    let operations = "gen_ai_client_operation_duration_seconds_count";
    page.is(operations, &chat, 10.0);
    page.is(operations, &with(("error_type", "429")), 1.0);
    page.is(operations, &with(("error_type", "400")), 1.0);
    page.is(operations, &[("gen_ai_operation_name", "invoke_agent")], 5.0);
    page.is(operations, &[("gen_ai_operation_name", "invoke_agent"), ("error_type", "max_steps")], 1.0);
    page.is(operations, &[("gen_ai_operation_name", "execute_tool"), ("error_type", "NOT_FOUND")], 2.0);
    // Each reply tells of 10 tokens in and 5 out.
    page.is("gen_ai_client_token_usage_sum", &with(("gen_ai_token_type", "input")), 80.0);
    page.is("gen_ai_client_token_usage_sum", &with(("gen_ai_token_type", "output")), 40.0);
    page.is("answerable_model_cost_microusd_total", &[("gen_ai_request_model", "m")], 160.0);
    let posted =
        [("http_route", "/v1/runs"), ("http_request_method", "POST"), ("http_response_status_code", "201")];
    page.is("http_server_request_duration_seconds_count", &posted, 6.0);

    secrets.extend([waits.id.clone(), world.tenant.clone(), world.provider_key().to_owned()]);
    tells_of_nobody(&page, &secrets);
    is_well_formed(&page);

    // A server that starts counts at once what waits, whoever began it.
    world.server.crash().await;
    let page = counted(&world).await;
    page.is("answerable_approvals_pending", &[("kind", "tool_call")], 1.0);
    page.is("answerable_approvals_pending", &[], 1.0);
    page.is("answerable_ledger_uncertain", &[], 1.0);
    page.is("answerable_queue_depth", &[], 0.0);
    page.is("answerable_webhooks_pending", &[], 0.0);
    assert!(page.sum("answerable_approvals_oldest_age_seconds", &[]) > 0.0, "{}", page.text);
    tells_of_nobody(&page, &secrets);
    is_well_formed(&page);
}

/// The page once the database was looked at.
async fn counted(world: &World) -> Page {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let page = Page::of(world).await;
        if page.samples.iter().any(|sample| sample.name == "answerable_queue_depth") {
            return page;
        }
        assert!(Instant::now() < deadline, "nothing was counted:\n{}", page.text);
        sleep(Duration::from_millis(20)).await;
    }
}

/// No id of any kind, with its prefix or without, and no tenant's name.
fn tells_of_nobody(page: &Page, secrets: &[String]) {
    for secret in secrets {
        let bare = secret.split_once('_').map_or(secret.as_str(), |(_, bare)| bare);
        for word in [secret.as_str(), bare, &bare.replace('-', "")] {
            assert!(!page.text.contains(word), "{word} is in\n{}", page.text);
        }
    }
    assert!(!page.text.contains("tenant "), "a tenant's name is in\n{}", page.text);
    for sample in &page.samples {
        for value in sample.labels.values() {
            let digits = value.bytes().filter(u8::is_ascii_hexdigit).count();
            assert!(digits < 32, "this looks like an id: {sample:?}");
        }
    }
}

/// Every family says what it is, once, and has labels that are known.
fn is_well_formed(page: &Page) {
    let heads = |word: &str| -> Vec<(&str, &str)> {
        let heads = page
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' '));
        heads.map(|head| head.split_once(' ').unwrap_or((head, ""))).collect()
    };
    let (help, types) = (heads("HELP"), heads("TYPE"));
    let named: BTreeSet<&str> = help.iter().map(|(name, _)| *name).collect();
    assert_eq!((named.len(), types.len()), (help.len(), help.len()), "{}", page.text);
    assert!(help.iter().all(|(_, about)| about.len() > 10), "{help:?}");
    let types: BTreeMap<&str, &str> = types.into_iter().collect();
    for sample in &page.samples {
        assert!(named.contains(family(&sample.name, &types)), "{sample:?} has no HELP");
        assert!(sample.labels.keys().all(|name| LABELS.contains(&name.as_str())), "{sample:?}");
        assert!(sample.value.is_finite() && sample.value >= 0.0, "{sample:?}");
    }
}

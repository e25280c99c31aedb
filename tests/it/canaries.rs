//! A secret that was used is nowhere: in no answer, no webhook, no export, no line of the log at its loudest, no table.

use std::sync::Arc;

use answerable_testkit::issuer::token;
use answerable_testkit::{ModelReply, ScriptedIssuer, SigningKey, TestDatabase, ToolAnswer, WebhookReceiver};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::harness::{Fits, Server, With, World};

/// With what every form writes in a way of its own.
const SECRET: &str = "kanarie<&>\"7'/é+ 9";

/// What may be left of the secret nowhere: its forms, and the part of them that all have.
fn forms(secret: &str) -> Vec<String> {
    let percent = |text: &str| text.replace('<', "%3C").replace('&', "%26").replace('>', "%3E");
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    vec![
        secret.to_owned(),
        json!(secret).to_string(),
        secret
            .replace('<', "\\u003c")
            .replace('&', "\\u0026")
            .replace('>', "\\u003e")
            .replace('"', "\\\"")
            .replace('é', "\\u00e9"),
        secret
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;"),
        percent(secret)
            .replace('"', "%22")
            .replace('\'', "%27")
            .replace('/', "%2F")
            .replace('é', "%C3%A9")
            .replace('+', "%2B")
            .replace(' ', "%20"),
        STANDARD.encode(secret),
        STANDARD.encode(format!("shop:{secret}")),
        URL_SAFE_NO_PAD.encode(format!("u:{secret}!")),
        hex.to_uppercase(),
        hex,
    ]
}

/// What a secret's base64 has in it wherever the secret stood, a character or two from its ends.
fn cores(secret: &str) -> Vec<String> {
    (0..3)
        .map(|before| {
            let text = STANDARD.encode([&vec![b'x'; before][..], secret.as_bytes()].concat());
            text[4..text.len() - 5].to_owned()
        })
        .collect()
}

/// All that stands in the database, as text.
async fn whole_database(world: &World) -> Vec<(String, String)> {
    let mut db = PgConnection::connect(world.database_url()).await.expect("a connection");
    let columns: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT c.table_name::text, c.column_name::text, c.data_type::text FROM information_schema.columns c
         JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
         WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'",
    )
    .fetch_all(&mut db)
    .await
    .expect("columns");
    let mut all = Vec::new();
    for (table, column, kind) in columns {
        let text = match kind.as_str() {
            "bytea" => format!("encode(\"{column}\", 'escape') || ' ' || encode(\"{column}\", 'hex')"),
            _ => format!("\"{column}\"::text"),
        };
        let read = format!("SELECT coalesce(string_agg({text}, E'\\n'), '') FROM \"{table}\"");
        let text: String =
            sqlx::query_scalar(AssertSqlSafe(read)).fetch_one(&mut db).await.expect("a column");
        all.push((format!("{table}.{column}"), text));
    }
    all
}

async fn loud_world() -> World {
    let database = TestDatabase::create().await.expect("a database");
    let settings = [("ANSWERABLE_LOG", "trace"), ("ANSWERABLE_LOG_FORMAT", "json")];
    let server = Server::start_with(&database.url, &settings).await;
    World::on(Arc::new(server), Some(database)).await
}

#[tokio::test]
async fn a_secret_that_was_used_is_nowhere() {
    let world = loud_world().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["*"], "include_input": true});
    world.client.post("/v1/webhooks", &hook).await.is(201);
    world.client.put("/v1/secrets/shop", &json!({"value": SECRET})).await.ok();
    let headers = json!({"x-key": "{{secret.shop}}", "x-token": "Token token=\"{{secret.shop}}\""});
    let look = world.read("look").with(json!({"http": {"headers": headers}, "output": {"max_chars": 200}}));
    let pay = world.write("pay").with(json!({"http": {"headers": headers}, "risk": "high"}));
    // The far side says it in every form: in short, at length (which becomes an artifact), in refusals and failures.
    let echo = forms(SECRET).join(" | ");
    let long = format!("{}{echo}{}", "a".repeat(300), "b".repeat(300));
    let json = json!({"headers": {"x-key": SECRET, SECRET: 1}, "echo": echo}).to_string();
    world.tools.script(
        "look",
        [
            ToolAnswer::text(&echo),
            ToolAnswer::text(&long),
            ToolAnswer::text(&json),
            ToolAnswer::text(&echo).with_status(404),
            ToolAnswer::text(&echo).with_status(400),
        ],
    );
    world.tools.script("pay", [ToolAnswer::text(&echo).with_status(409)]);
    let looks = (0..5).map(|_| ModelReply::calls([("look", json!({}))]));
    let last = [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Done.")];
    world.model.script("m", looks.chain(last));
    let run = world.start(&world.agent(&[look, pay])).await;
    run.approve().await;
    run.ended().await.fits(&json!({"final_answer": "Done."}));
    assert_eq!(world.tools.requests("look").len(), 5);
    receiver.first_of("run.finished").await;

    let mut said: Vec<(String, String)> = whole_database(&world).await;
    assert!(said.iter().any(|(_, text)| text.contains("***")), "something was masked");
    for list in [
        "",
        "/messages",
        "/steps",
        "/ledger",
        "/events",
        "/artifacts",
        "/checkpoints",
        "/trace",
        "/journal",
        "/export",
    ] {
        said.push((list.to_owned(), world.client.get(&run.path(list)).await.text));
    }
    for path in
        ["/v1/export", "/v1/secrets", "/v1/secrets/shop", "/v1/audit", "/metrics", "/v1/approvals?status=all"]
    {
        said.push((path.to_owned(), world.client.get(path).await.text));
    }
    for artifact in run.list("artifacts").await.as_array().expect("a list") {
        let path = format!("/v1/artifacts/{}/content", artifact["id"].as_str().expect("an id"));
        said.push((path.clone(), world.client.get(&path).await.text));
    }
    said.extend(
        world
            .model
            .requests_for("m")
            .iter()
            .map(|request| ("what the model is told".to_owned(), request.to_string())),
    );
    said.extend(
        receiver
            .deliveries()
            .iter()
            .map(|request| ("a webhook".to_owned(), String::from_utf8_lossy(&request.body).into_owned())),
    );
    said.push(("the log".to_owned(), world.log()));
    for (place, text) in &said {
        for form in forms(SECRET)
            .iter()
            .map(String::as_str)
            .chain(["kanarie"])
            .chain(cores(SECRET).iter().map(String::as_str))
        {
            let found = text.find(form).map(|at| {
                text[text.floor_char_boundary(at.saturating_sub(100))..].chars().take(300).collect::<String>()
            });
            assert_eq!(found, None, "{form} is in {place}");
        }
    }
}

/// Everywhere but in headers a template that names a secret is refused, with a pointer to it.
#[tokio::test]
async fn secrets_stand_in_headers_only() {
    let world = World::shared().await;
    world.client.put("/v1/secrets/shop", &json!({"value": "canary-value"})).await.ok();
    let secret = "{{secret.shop}}";
    let http = |change: Value| world.read("t").with(json!({"http": change}));
    let url = world.tools.url("t");
    for (tool, pointer) in [
        (http(json!({"url": format!("{url}/{secret}")})), "/agent/tools/0/http/url"),
        (http(json!({"url": format!("{url}?key={secret}")})), "/agent/tools/0/http/url"),
        (http(json!({"query": {"key": secret}})), "/agent/tools/0/http/query/key"),
        (http(json!({"body": {"key": [secret]}})), "/agent/tools/0/http/body/key/0"),
        (world.write("t").with(json!({"idempotency_key": secret})), "/agent/tools/0/idempotency_key"),
    ] {
        let body = json!({"agent": world.agent(&[tool]), "input": "go"});
        world.client.post("/v1/runs", &body).await.refused_at(pointer);
        world
            .client
            .post("/v1/agents", &body["agent"])
            .await
            .refused_at(pointer.trim_start_matches("/agent"));
    }
    let read = world.read("look");
    let reconciled = world.write("t").with(json!({"reconcile": {"tool": "look", "input": {"key": secret}}}));
    let body = json!({"agent": world.agent(&[reconciled, read]), "input": "go"});
    world.client.post("/v1/runs", &body).await.refused_at("/agent/tools/0/reconcile/input/key");
    // What is no template stays what it says: nothing of it is filled in.
    world.model.script("m", [ModelReply::text(secret)]);
    let run = world
        .start_with(&world.agent(&[]).with(json!({"instructions": secret})), json!({"input": secret}))
        .await;
    run.ended().await.fits(&json!({"final_answer": secret}));
    assert!(!world.model.requests_for("m")[0].to_string().contains("canary-value"));
}

/// What a key's secret, or another text that lets somebody in, may be found as.
fn spellings(secret: &str) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Of a key and of a token the last part is what nobody else knows.
    let own = match secret.strip_prefix("ans_") {
        Some(key) => key.split_once('_').expect("an id and a secret").1,
        None => secret.trim_start_matches("whsec_").rsplit('.').next().expect("a last part"),
    };
    let mut all = vec![own.to_owned(), hex(own.as_bytes()), STANDARD.encode(own), STANDARD.encode(secret)];
    for engine in [&URL_SAFE_NO_PAD, &STANDARD] {
        // The bytes that it stands for.
        all.extend(engine.decode(own).iter().flat_map(|raw| [hex(raw), STANDARD.encode(raw)]));
    }
    all
}

/// A world whose log is as loud as can be, and which lets in whom this issuer vouches for.
async fn loud_world_of(issuer: &ScriptedIssuer) -> World {
    let database = TestDatabase::create().await.expect("a database");
    let settings = [
        ("ANSWERABLE_LOG", "trace"),
        ("ANSWERABLE_OIDC_ISSUER", &*issuer.url()),
        ("ANSWERABLE_OIDC_AUDIENCE", "answerable"),
    ];
    let server = Server::start_with(&database.url, &settings).await;
    World::on(Arc::new(server), Some(database)).await
}

#[tokio::test]
async fn what_lets_somebody_in_is_kept_nowhere() {
    let signing = SigningKey::p256("k1");
    let issuer = ScriptedIssuer::start(&[&signing]).await.expect("an issuer");
    let world = loud_world_of(&issuer).await;
    let operator = world.server.operator();
    let text = |shown: &Value, name: &str| shown[name].as_str().expect("a text").to_owned();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let made = operator.post(&keys, &json!({"name": "k", "scopes": ["admin"]})).once("made").await.is(201);
    let first = text(&made, "secret");
    world.client.with_key(&first).get("/v1/runs").await.ok();
    let rotate = format!("{keys}/{}/rotate", text(&made, "id"));
    let second = operator.post(&rotate, &json!({"overlap_ms": 60_000})).once("rotated").await.ok();
    let second = text(&second, "secret");
    let claims = json!({"iss": issuer.url(), "aud": "answerable", "email": "ann", "answerable_tenant": world.tenant,
        "exp": chrono::Utc::now().timestamp() + 600, "answerable_scopes": ["admin"]});
    let person = token(&signing, &claims);
    for good in [&first, &second, &person] {
        world.client.with_key(good).get("/v1/runs").await.ok();
    }
    // One letter off: refused, and no more told of.
    let mistyped = format!("{}A", &second[..second.len() - 1]);
    world.client.with_key(&mistyped).get("/v1/runs").await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["*"]});
    let hook = world.client.post("/v1/webhooks", &hook).once("hook").await.is(201);
    let signs = world.client.get("/v1/signing_secret").await.ok();
    let turned = world.client.post("/v1/signing_secret/rotate", &json!({})).once("turned").await.ok();
    // All of them are used: the provider's key for the model, the signing secrets for the tool and the webhook.
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Done.")]);
    world.start(&world.agent(&[world.read("look")])).await.ended().await.fits(&json!({"status": "finished"}));
    receiver.first_of("run.finished").await;

    let mut said = whole_database(&world).await;
    said.push(("the log".to_owned(), world.server.log_from(0)));
    let is_said = |what: &str, at: &str| said.iter().any(|(place, text)| place == at && text.contains(what));
    let id = text(&made, "id");
    assert!(is_said(id.trim_start_matches("key_"), "api_keys.key_id") && is_said(" TRACE ", "the log"));
    let secrets = [
        ("a key's first secret", first),
        ("its second one", second),
        ("a person's token", person),
        ("the operator's key", world.server.operator_key().to_owned()),
        ("the provider's key", world.provider_key().to_owned()),
        ("the webhook's secret", text(&hook, "signing_secret")),
        ("the signing secret", text(&signs, "signing_secret")),
        ("the signing secret after it", text(&turned, "signing_secret")),
    ];
    for (name, secret) in secrets {
        for spelling in spellings(&secret).iter().filter(|spelling| spelling.len() > 12) {
            let found = said.iter().find(|(_, text)| text.contains(spelling.as_str()));
            assert_eq!(found.map(|(place, _)| place), None, "{name}, as {spelling}");
        }
    }
}

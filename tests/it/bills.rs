//! What is told of a tenant's usage: by day, agent and model, to itself and to the operator.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World, away_from_midnight};

async fn usage(world: &World, query: &str) -> Value {
    world.client.get(&format!("/v1/usage{query}")).await.ok()["data"].clone()
}

/// A stored agent whose model `m` fails, so that `n` answers; and a run of another, inline one.
async fn spent(world: &World) -> String {
    let prices = json!({
        "m": {"input_microusd_per_mtok": 1_000_000, "output_microusd_per_mtok": 2_000_000},
        "n": {"input_microusd_per_mtok": 500_000, "output_microusd_per_mtok": 500_000,
            "cached_input_microusd_per_mtok": 0},
    });
    world.provider(&world.client, json!({"prices": prices})).await;
    world.model.script("m", [ModelReply::status(401), ModelReply::text("Short.").usage(100, 10)]);
    let cached = json!({"prompt_tokens": 1_000, "completion_tokens": 40, "total_tokens": 1_040,
        "prompt_tokens_details": {"cached_tokens": 600}});
    let calls = ModelReply::calls([("look", json!({}))]).usage_as(cached);
    world.model.script("n", [calls]);
    let agent = world.agent(&[world.read("look")]).with(
        json!({"model": {"fallbacks": [{"provider": "main", "model": "n"}]}, "budgets": {"max_steps": 1}}),
    );
    let stored = world.client.post("/v1/agents", &agent).await.is(201);
    let id = stored["id"].as_str().expect("an id").to_owned();
    let run = world.client.post("/v1/runs", &json!({"agent_id": id, "input": "go"})).await.is(201);
    world.run(&run).ended().await.fits(&json!({"stop_reason": "max_steps"}));
    world.start(&world.agent(&[])).await.ended().await.fits(&json!({"final_answer": "Short."}));
    id
}

#[tokio::test]
async fn usage_is_told_by_what_is_asked_for() {
    away_from_midnight().await;
    let world = World::shared().await;
    let agent = spent(&world).await;
    let all = json!({"runs": 2, "steps": 2, "model_calls": 3, "tool_calls": 1, "input_tokens": 1_100,
        "cached_input_tokens": 600, "output_tokens": 50, "tokens": 1_150, "cost_microusd": 340});
    let days = usage(&world, "").await;
    days.fits(&json!([all]));
    assert_eq!(days[0]["group"], days[0]["day"]);
    let stored = json!({"agent_id": agent, "runs": 1, "model_calls": 2, "tokens": 1_040});
    usage(&world, "?group_by=agent").await.fits(&json!([stored.clone().with(json!({"group": agent})),
        {"group": null, "agent_id": null, "runs": 1, "tokens": 110}]));
    let (m, n) = (
        json!({"model": "main/m", "runs": 2, "model_calls": 2, "tool_calls": 0, "tokens": 110, "cost_microusd": 120}),
        json!({"model": "main/n", "runs": 1, "model_calls": 1, "tool_calls": 1, "tokens": 1_040, "cost_microusd": 220}),
    );
    usage(&world, "?group_by=model").await.fits(&json!([n.clone().with(json!({"group": "main/n"})), m]));
    let both = usage(&world, "?group_by=model,agent").await;
    both.fits(&json!([n.with(json!({"agent_id": agent, "group": null, "day": null})),
        {"agent_id": null, "model": "main/m", "tokens": 110}, {"agent_id": agent, "model": "main/m", "tokens": 0}]));
    usage(&world, "?group_by=day,agent,model")
        .await
        .fits(&json!([{"day": days[0]["day"], "model": "main/n"}, {}, {}]));
    // Days that are over, and days to come.
    assert_eq!(usage(&world, "?to=2020-01-01T00:00:00Z&from=2019-01-01T00:00:00Z").await, json!([]));
    assert_eq!(usage(&world, "?from=2999-01-01T00:00:00Z&to=9999-12-31T23:59:59Z").await, json!([]));
    for odd in ["colour", "day,day", "day,", "", "day,agent,model,day"] {
        world.client.get(&format!("/v1/usage?group_by={odd}")).await.refused_at("/query/group_by");
    }
}

#[tokio::test]
async fn the_operator_sees_any_tenants_usage_and_quotas() {
    away_from_midnight().await;
    let world = World::shared().await;
    spent(&world).await;
    let operator = world.server.operator();
    let path = |what: &str| format!("/v1/tenants/{}/{what}", world.tenant);
    let own = world.client.get("/v1/usage?group_by=model").await.ok();
    assert_eq!(operator.get(&path("usage?group_by=model")).await.ok(), own);
    operator
        .patch(&format!("/v1/tenants/{}", world.tenant), &json!({"quotas": {"max_tokens_per_day": 5_000}}))
        .await
        .ok();
    let quotas = operator.get(&path("quotas")).await.ok();
    assert_eq!(quotas, world.client.get("/v1/quotas").await.ok());
    quotas["data"].fits(&json!({"$any": [{"name": "max_tokens_per_day", "limit": 5_000, "used": 1_150}]}));
    let nobody = "/v1/tenants/ten_0192f0c1-2345-7890-abcd-ef0123456789";
    for what in ["usage", "quotas"] {
        operator.get(&format!("{nobody}/{what}")).await.refused(404, "not_found");
        world.client.get(&path(what)).await.is(403);
    }
    world.key(&["runs:read", "runs:write"]).await.get("/v1/quotas").await.refused(403, "forbidden");
}

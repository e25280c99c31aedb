//! What an integration does once: a tenant, a key, the model's provider, the shop's secret, the agent.

use serde_json::{Value, json};

use super::Trouble;
use super::runtime::Runtime;

const AGENT: &str = include_str!("../../agent.json");
/// Where `agent.json` has the shop.
const SHOP_IN_AGENT: &str = "http://127.0.0.1:7070";

/// The model server that the agent uses.
pub(super) struct ModelServer {
    pub(super) base_url: String,
    pub(super) api_key: String,
    pub(super) model: String,
    pub(super) scripted: bool,
}

/// A tenant that is ready to run the order desk.
pub(super) struct Integration {
    /// The API under the tenant's own key.
    pub(super) runtime: Runtime,
    pub(super) agent_id: String,
}

/// Sets the order desk up on a fresh server.
pub(super) async fn integrate(
    operator: &Runtime,
    model: &ModelServer,
    shop_url: &str,
    shop_token: &str,
) -> Result<Integration, Trouble> {
    let tenant = operator.post("/v1/tenants", &json!({ "name": "the shop" })).await?;
    let scopes = ["runs:read", "runs:write", "approvals:decide", "agents:write", "admin"];
    let key = operator
        .post(
            &format!("/v1/tenants/{}/keys", text(&tenant, "id")?),
            &json!({ "name": "demo", "scopes": scopes }),
        )
        .await?;
    let runtime = operator.with_key(&text(&key, "secret")?);
    runtime.put("/v1/providers/main", &provider(model)).await?;
    // The agent names the secret; no key of the shop stands in it, and no model ever sees one.
    runtime.put("/v1/secrets/shop", &json!({ "value": shop_token })).await?;
    let agent = runtime.post("/v1/agents", &agent(shop_url, &model.model)?).await?;
    Ok(Integration { agent_id: text(&agent, "id")?, runtime })
}

fn provider(model: &ModelServer) -> Value {
    let mut provider = json!({ "kind": "openai_chat", "base_url": model.base_url, "api_key": model.api_key });
    if model.scripted {
        // What a small hosted model costs; with a real server the prices are its owner's to fill in.
        let price = json!({ "input_microusd_per_mtok": 150_000, "output_microusd_per_mtok": 600_000 });
        provider["prices"] = json!({ model.model.as_str(): price });
    }
    provider
}

/// `agent.json`, with the shop where it really is and the model that is really asked.
fn agent(shop_url: &str, model: &str) -> Result<Value, Trouble> {
    let text = AGENT.replace(SHOP_IN_AGENT, shop_url);
    let mut agent: Value =
        serde_json::from_str(&text).map_err(|error| Trouble::new(format!("agent.json: {error}")))?;
    agent["model"]["model"] = model.into();
    Ok(agent)
}

fn text(value: &Value, name: &str) -> Result<String, Trouble> {
    value[name]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Trouble::new(format!("the server's answer has no `{name}`")))
}

//! Where cases are played: on a server, as whom.

use answerable_evals::Stage;
use reqwest::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Failure;
use crate::cli::remote::{Api, Refusal};

/// Longest name of a provider, in characters.
const LONGEST_NAME: usize = 64;

/// A server to play on.
#[derive(Debug, Clone)]
pub(super) struct Place {
    access: Access,
    /// Whether the server can call this machine.
    pub(super) reach: bool,
}

#[derive(Debug, Clone)]
enum Access {
    /// With the operator's key: each play makes a tenant.
    Operator(Api),
    /// With a tenant's key: plays share the tenant.
    Tenant(Api),
}

/// Who a play is: a client with a tenant's key, and what sets its names apart from others'.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) api: Api,
    /// The tenant that was made for it.
    tenant: Option<String>,
    /// Stands before the names of its providers, in a tenant that others use too.
    prefix: String,
}

impl Place {
    /// With the operator's key, on a server that can call this machine.
    pub(super) fn own(operator: Api) -> Self {
        Self { access: Access::Operator(operator), reach: true }
    }

    /// On somebody's server, with the operator's key or else a tenant's. Whether it can call this machine is found out.
    pub(super) async fn elsewhere(api: Api, is_operator: bool, is_here: bool) -> Result<Self, Failure> {
        let access = if is_operator { Access::Operator(api) } else { Access::Tenant(api) };
        let place = Self { access, reach: false };
        let guest = place.welcome("probe").await?;
        let probed = if is_here {
            reaches(&guest).await
        } else {
            guest.api.get(&["v1", "providers"]).await.map(|_| false)
        };
        place.goodbye(guest).await;
        Ok(Self { reach: probed?, ..place })
    }

    /// What cases can be played with here.
    pub(super) fn stage(&self, live_model: bool, live_tools: bool) -> Stage {
        let own_tenant = matches!(self.access, Access::Operator(_));
        Stage { reach: self.reach, own_tenant, live_model, live_tools }
    }

    /// Makes room for a play.
    pub(super) async fn welcome(&self, name: &str) -> Result<Guest, Failure> {
        let operator = match &self.access {
            Access::Tenant(api) => {
                let id = Uuid::new_v4().simple().to_string();
                return Ok(Guest { api: api.clone(), tenant: None, prefix: format!("eval-{}-", &id[..12]) });
            }
            Access::Operator(api) => api,
        };
        let name: String = format!("eval {name}").chars().take(100).collect();
        let tenant = operator.post(&["v1", "tenants"], &json!({"name": name})).await?;
        let id = text(&tenant, "id")?;
        let body = json!({"name": "eval", "scopes": ["admin"]});
        let key = operator.post(&["v1", "tenants", &id, "keys"], &body).await?;
        let secret = SecretString::from(text(&key, "secret")?);
        Ok(Guest { api: operator.with_key(&secret)?, tenant: Some(id), prefix: String::new() })
    }

    /// Takes away what a play left. What can't be taken away is named `eval…` and harms nobody.
    pub(super) async fn goodbye(&self, guest: Guest) {
        if let (Some(id), Access::Operator(operator)) = (&guest.tenant, &self.access) {
            let _ = operator.call(Method::DELETE, &["v1", "tenants", id], None).await;
        }
    }
}

/// Whether the server may call this machine's loopback: it refuses addresses that it may not call.
async fn reaches(guest: &Guest) -> Result<bool, Refusal> {
    let name = guest.named("probe");
    let body = json!({"kind": "openai_chat", "base_url": "http://127.0.0.1:9/v1"});
    let path = ["v1", "providers", &name];
    match guest.api.call(Method::PUT, &path, Some(&body)).await {
        Ok(_) => guest.api.call(Method::DELETE, &path, None).await.map(|_| true),
        Err(Refusal { status: Some(StatusCode::UNPROCESSABLE_ENTITY), .. }) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

impl Guest {
    /// A provider's name here.
    pub(super) fn named(&self, provider: &str) -> String {
        format!("{}{provider}", self.prefix).chars().take(LONGEST_NAME).collect()
    }

    /// Whether nobody else uses its tenant.
    pub(super) fn is_alone(&self) -> bool {
        self.tenant.is_some()
    }
}

/// A text that the server must have sent.
pub(super) fn text(object: &Value, name: &str) -> Result<String, Failure> {
    let text = object.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("the server's answer has no {name}")))
}

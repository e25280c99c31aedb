//! The tenant and the key that `answerable dev` gives its user, made over the public API like any other.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::remote::{Api, Refusal};
use crate::Failure;
use crate::config::DataFolder;

const NAME: &str = "dev";
const PATIENCE: Duration = Duration::from_secs(15);

/// What the user of `answerable dev` works with.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tenant_id: String,
    pub(crate) api_key: SecretString,
}

/// Hands back the kept key if the server still knows it, else a new key; and a new tenant if that is gone.
pub(crate) async fn bootstrap(
    base: &Url,
    operator_key: &SecretString,
    folder: &DataFolder,
) -> Result<Access, Failure> {
    let operator = Api::new(base, operator_key.clone())?.patient(PATIENCE);
    let kept = folder.read("tenant-id")?.zip(folder.read("api-key")?);
    if let Some((tenant_id, api_key)) = kept {
        let api_key = SecretString::from(api_key);
        if works(&Api::new(base, api_key.clone())?.patient(PATIENCE)).await? {
            return Ok(Access { tenant_id, api_key });
        }
    }
    let tenant_id = tenant(&operator, folder).await?;
    let body = json!({"name": NAME, "scopes": ["admin"]});
    let key = operator.post(&["v1", "tenants", &tenant_id, "keys"], &body).await?;
    let secret = string(&key, "secret")?;
    folder.write("api-key", &secret)?;
    Ok(Access { tenant_id, api_key: secret.into() })
}

async fn works(api: &Api) -> Result<bool, Failure> {
    match api.call(Method::GET, &["v1", "runs"], None).await {
        Ok(_) => Ok(true),
        Err(Refusal { status: Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), .. }) => Ok(false),
        Err(refusal) => Err(refusal.into()),
    }
}

async fn tenant(operator: &Api, folder: &DataFolder) -> Result<String, Failure> {
    if let Some(id) = folder.read("tenant-id")? {
        match operator.call(Method::GET, &["v1", "tenants", &id], None).await {
            Ok(_) => return Ok(id),
            Err(Refusal { status: Some(StatusCode::NOT_FOUND), .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let tenant = operator.post(&["v1", "tenants"], &json!({"name": NAME})).await?;
    let id = string(&tenant, "id")?;
    folder.write("tenant-id", &id)?;
    Ok(id)
}

fn string(object: &Value, name: &str) -> Result<String, Failure> {
    let text = object.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("the server's answer has no {name}")))
}

/// The key that `answerable dev` keeps in the working folder, for commands on the same machine.
pub(crate) fn kept_key() -> Option<SecretString> {
    let folder = std::env::var_os("ANSWERABLE_DATA_DIR").filter(|dir| !dir.is_empty());
    let path = std::path::PathBuf::from(folder.unwrap_or_else(|| ".answerable".into())).join("api-key");
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned().into()).filter(|key: &SecretString| !key.expose_secret().is_empty())
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;

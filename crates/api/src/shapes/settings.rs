//! A tenant's own settings: providers, secrets, policy, the signing secret.

use std::collections::BTreeMap;

use answerable_store::{
    PolicyRow, PolicyVersionRow, ProviderPut, ProviderRow, SecretRow, SigningSecret as StoredSigningSecret,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::Time;
use crate::body::RequestBody;

/// What stands in the place of a stored secret.
pub(super) const HIDDEN: &str = "***";

/// A provider as it is put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderSpec {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) base_url: String,
    #[serde(default, deserialize_with = "present")]
    api_key: Option<Option<String>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) prices: Map<String, Value>,
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
    #[serde(default)]
    script: Vec<Value>,
}

impl RequestBody for ProviderSpec {}

/// Tells a field that is null from one that is absent.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

impl From<ProviderSpec> for ProviderPut {
    fn from(spec: ProviderSpec) -> Self {
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), SecretString::from(value));
        Self {
            kind: spec.kind,
            base_url: spec.base_url,
            api_key: spec.api_key.map(|key| key.map(SecretString::from)),
            headers: spec.headers.into_iter().map(lower).collect(),
            prices: Value::Object(spec.prices),
            options: Value::Object(spec.options),
            script: Value::Array(spec.script),
        }
    }
}

/// A provider as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Provider {
    name: String,
    kind: String,
    base_url: Option<String>,
    api_key: Option<&'static str>,
    headers: BTreeMap<String, &'static str>,
    prices: Value,
    options: Value,
    script: Option<Value>,
    created_at: Time,
    updated_at: Time,
}

impl From<ProviderRow> for Provider {
    fn from(row: ProviderRow) -> Self {
        Self {
            script: (row.kind == "scripted").then_some(row.script),
            name: row.name,
            kind: row.kind,
            base_url: Some(row.base_url).filter(|url| !url.is_empty()),
            api_key: row.has_api_key.then_some(HIDDEN),
            headers: row.header_names.into_iter().map(|name| (name, HIDDEN)).collect(),
            prices: row.prices,
            options: row.options,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        }
    }
}

/// A secret as it is put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretSpec {
    value: String,
}

impl RequestBody for SecretSpec {}

impl From<SecretSpec> for SecretString {
    fn from(spec: SecretSpec) -> Self {
        Self::from(spec.value)
    }
}

/// A secret as it is shown: without its value.
#[derive(Debug, Serialize)]
pub(crate) struct Secret {
    name: String,
    created_at: Time,
    updated_at: Time,
}

impl From<SecretRow> for Secret {
    fn from(row: SecretRow) -> Self {
        Self { name: row.name, created_at: Time(row.created_at), updated_at: Time(row.updated_at) }
    }
}

/// A policy as it is put, and kept as it was written.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct PolicyBody(pub(crate) Value);

impl RequestBody for PolicyBody {}

/// The tenant's policy as it is shown; one without rules where there is none.
pub(crate) fn policy(row: Option<PolicyRow>) -> Value {
    let mut shown = row.as_ref().map_or_else(|| json!({}), |row| row.policy.clone());
    if let Some(shown) = shown.as_object_mut() {
        shown.entry("rules").or_insert_with(|| json!([]));
        shown.insert("version".into(), json!(row.as_ref().map(|row| row.version)));
        shown.insert("updated_at".into(), json!(row.as_ref().map(|row| Time(row.updated_at))));
        shown.insert("updated_by".into(), json!(row.as_ref().and_then(|row| row.updated_by.as_ref())));
    }
    shown
}

/// One of the policies that a tenant has had.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyVersion {
    version: i32,
    created_at: Time,
    created_by: Option<String>,
}

impl From<PolicyVersionRow> for PolicyVersion {
    fn from(row: PolicyVersionRow) -> Self {
        Self { version: row.version, created_at: Time(row.created_at), created_by: row.created_by }
    }
}

/// The secret that signs tool calls, and the one before while it is still used.
#[derive(Serialize)]
pub(crate) struct SigningSecret {
    signing_secret: String,
    created_at: Time,
    previous: Option<FormerSecret>,
}

#[derive(Serialize)]
struct FormerSecret {
    signing_secret: String,
    valid_until: Time,
}

impl SigningSecret {
    /// Of the secrets in use, the newest first; `None`: there is none.
    pub(crate) fn of(secrets: &[StoredSigningSecret]) -> Option<Self> {
        let newest = secrets.first()?;
        let former = secrets.iter().skip(1).find_map(|secret| {
            let signing_secret = secret.secret.expose_secret().to_owned();
            Some(FormerSecret { signing_secret, valid_until: Time(secret.valid_until?) })
        });
        Some(Self {
            signing_secret: newest.secret.expose_secret().to_owned(),
            created_at: Time(newest.created_at),
            previous: former,
        })
    }
}

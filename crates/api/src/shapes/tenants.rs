//! Tenants.

use answerable_core::FieldError;
use answerable_core::id::TenantId;
use answerable_store::TenantRow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Time;
use crate::body::RequestBody;

/// A tenant to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantCreate {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) quotas: Map<String, Value>,
    #[serde(default)]
    pub(crate) trust_traceparent: bool,
}

impl RequestBody for TenantCreate {}

/// A change of a tenant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantUpdate {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) quotas: Map<String, Value>,
    #[serde(default)]
    pub(crate) trust_traceparent: Option<bool>,
    #[serde(default)]
    pub(crate) suspended: Option<bool>,
}

impl RequestBody for TenantUpdate {}

/// Quotas that are whole numbers but aren't written as such (`2.0`, `1e3`), which the database would not read.
pub(crate) fn odd_quotas(quotas: &Map<String, Value>) -> Vec<FieldError> {
    let odd = quotas.iter().filter(|(_, value)| !value.is_null() && value.as_i64().is_none());
    odd.map(|(name, _)| FieldError::new(format!("/quotas/{name}"), "must be written as a whole number"))
        .collect()
}

/// A tenant as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Tenant {
    id: TenantId,
    object: &'static str,
    name: String,
    quotas: Value,
    trust_traceparent: bool,
    suspended_at: Option<Time>,
    created_at: Time,
}

impl From<TenantRow> for Tenant {
    fn from(row: TenantRow) -> Self {
        Self {
            id: TenantId(row.tenant_id),
            object: "tenant",
            name: row.name,
            quotas: row.quotas,
            trust_traceparent: row.trust_traceparent,
            suspended_at: row.suspended_at.map(Time),
            created_at: Time(row.created_at),
        }
    }
}

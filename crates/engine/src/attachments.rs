//! Pictures and documents of a request: loaded just before a model is asked, and kept nowhere.

use std::collections::BTreeMap;

use answerable_core::attachments::{MAX_SHOWN_BYTES, explain_missing, to_load};
use answerable_core::model::ModelRequest;

use crate::env::Env;
use crate::session::{RunFacts, patiently};

/// Puts into a request what its messages' attachments hold; where one can't be shown, the model is told so. Asks until the
/// store answers.
pub(crate) async fn load(env: &Env, facts: &RunFacts, request: &mut ModelRequest) {
    let tenant = facts.lease.tenant_id;
    let ids: Vec<_> = to_load(&request.messages, MAX_SHOWN_BYTES).into_iter().collect();
    if !ids.is_empty() {
        let found = patiently(|| env.store.artifacts(tenant, &ids)).await;
        request.attachments = found.unwrap_or_else(|error| {
            tracing::error!(%error, "attachments can't be read");
            BTreeMap::new()
        });
    }
    explain_missing(&mut request.messages, MAX_SHOWN_BYTES, &request.attachments);
}

//! The shop, as its owner sees it: the books, and accidents to order.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Map;

use super::Trouble;
use crate::shop::{Books, Fault, FaultKind};

/// The shop's owner.
#[derive(Clone)]
pub(super) struct Shopfront {
    client: Client,
    base: String,
    token: String,
}

impl Shopfront {
    pub(super) fn new(client: Client, base: String, token: String) -> Self {
        Self { client, base, token }
    }

    /// Everything that the shop was made to do.
    pub(super) async fn books(&self) -> Result<Books, Trouble> {
        let answer =
            self.client.get(format!("{}/admin/audit", self.base)).bearer_auth(&self.token).send().await;
        let books = async { answer?.error_for_status()?.json().await }.await;
        books.map_err(|error: reqwest::Error| Trouble::new(format!("the shop's books: {error}")))
    }

    /// Arms an accident for the next request to `endpoint` whose body has `name: value`.
    pub(super) async fn accident(
        &self,
        endpoint: &str,
        kind: FaultKind,
        (name, value): (&str, &str),
    ) -> Result<(), Trouble> {
        let fault = Fault {
            endpoint: endpoint.to_owned(),
            kind,
            times: 1,
            delay_ms: 4000,
            retry_after_s: Some(1),
            when: Map::from_iter([(name.to_owned(), value.into())]),
        };
        let request = self.client.post(format!("{}/admin/faults", self.base)).bearer_auth(&self.token);
        let answer = request.json(&fault).send().await.and_then(reqwest::Response::error_for_status);
        answer.map(|_| ()).map_err(|error| Trouble::new(format!("the shop's faults: {error}")))
    }

    /// Waits until an order of this message stands in the books; `false` if none came in time.
    pub(super) async fn has_order_of(&self, message: &str, within: Duration) -> Result<bool, Trouble> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            let books = self.books().await?;
            if books.orders.iter().any(|order| order.message_id.as_deref() == Some(message)) {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(false)
    }
}

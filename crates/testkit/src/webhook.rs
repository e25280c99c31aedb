//! A receiver of webhooks that keeps what it was sent.

mod answer;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::sleep;

pub use answer::HookAnswer;
use answer::plain;

use crate::arrivals::Arrivals;
use crate::lock::locked;
use crate::loopback::Loopback;
use crate::request::RecordedRequest;

/// A webhook endpoint on loopback.
#[derive(Debug)]
pub struct WebhookReceiver {
    server: Loopback,
    inbox: Arc<Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    deliveries: Mutex<Vec<RecordedRequest>>,
    answers: Mutex<Vec<HookAnswer>>,
    arrivals: Arrivals,
}

impl WebhookReceiver {
    /// Starts a receiver that answers 200 to everything.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> io::Result<Self> {
        Self::answering([]).await
    }

    /// Starts a receiver that gives these answers (status and delay) in order, then the last one again.
    ///
    /// # Errors
    /// No free port.
    pub async fn answering(answers: impl IntoIterator<Item = (u16, Duration)>) -> io::Result<Self> {
        Self::scripted(answers.into_iter().map(|(status, delay)| HookAnswer::status(status).after(delay)))
            .await
    }

    /// Starts a receiver that gives these answers in order, then the last one again.
    ///
    /// # Errors
    /// No free port.
    pub async fn scripted(answers: impl IntoIterator<Item = HookAnswer>) -> io::Result<Self> {
        let inbox =
            Arc::new(Inbox { answers: Mutex::new(answers.into_iter().collect()), ..Inbox::default() });
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inbox));
        Ok(Self { server: Loopback::serve(router).await?, inbox })
    }

    /// Where to send webhooks.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url() + "/hook"
    }

    /// Every delivery so far, repeated ones included, in order of arrival.
    #[must_use]
    pub fn deliveries(&self) -> Vec<RecordedRequest> {
        locked(&self.inbox.deliveries).clone()
    }

    /// The `type` of each delivery so far.
    #[must_use]
    pub fn types(&self) -> Vec<String> {
        let type_of =
            |delivery: &RecordedRequest| delivery.json()["type"].as_str().unwrap_or_default().to_owned();
        self.deliveries().iter().map(type_of).collect()
    }

    /// Returns when `wanted` deliveries have come.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn received(&self, wanted: usize) {
        self.inbox.arrivals.reached(wanted, "webhooks").await;
    }

    /// Returns the first delivery of this `type`, waiting for it.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn first_of(&self, kind: &str) -> RecordedRequest {
        let mut seen = 0;
        loop {
            let deliveries = self.deliveries();
            let is_it = |delivery: &&RecordedRequest| delivery.json()["type"] == kind;
            if let Some(found) = deliveries.iter().skip(seen).find(is_it) {
                return found.clone();
            }
            seen = deliveries.len();
            self.inbox.arrivals.reached(seen + 1, &format!("webhooks, {kind} not among them")).await;
        }
    }
}

async fn receive(State(inbox): State<Arc<Inbox>>, request: Request) -> Response {
    let Some(request) = RecordedRequest::read(request).await else {
        return plain(StatusCode::BAD_REQUEST);
    };
    let answer = {
        let mut deliveries = locked(&inbox.deliveries);
        let answers = locked(&inbox.answers);
        let answer = answers.get(deliveries.len()).or(answers.last()).cloned();
        deliveries.push(request);
        answer.unwrap_or_else(|| HookAnswer::status(200))
    };
    inbox.arrivals.add();
    if !answer.comes {
        std::future::pending::<()>().await;
    }
    sleep(answer.delay).await;
    answer.response()
}

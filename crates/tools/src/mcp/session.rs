//! A session with a server: opened in order, its requests numbered, what is not awaited any more called off.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion,
    RequestId,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::failure::Failure;
use super::message;
use super::over_http::OverHttp;
use super::over_stdio::OverStdio;
use crate::sent::Sent;

/// How long calling a request off may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What carries messages.
#[derive(Debug)]
pub(super) enum Carrier {
    /// Streamable HTTP.
    Http(OverHttp),
    /// The pipes of a process.
    Stdio(OverStdio),
}

/// A session that is open. Dropped, it is ended on the server's side too, unless the server has lost it.
pub(super) struct Session {
    carrier: Arc<Carrier>,
    next_id: AtomicU64,
    version: String,
    is_lost: AtomicBool,
    used: Mutex<Instant>,
    /// Its place among the open sessions of this process.
    _place: Box<dyn Send + Sync>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What the server says of itself, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Greeting {
    protocol_version: ProtocolVersion,
    #[serde(default)]
    capabilities: Value,
}

impl Session {
    /// Opens a session under the settings `version`; `place` is given back when it ends.
    pub(super) async fn open(
        carrier: Carrier,
        version: String,
        place: Box<dyn Send + Sync>,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let session = Self {
            carrier: Arc::new(carrier),
            next_id: AtomicU64::new(1),
            version,
            is_lost: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
            _place: place,
        };
        let params = InitializeRequestParams::new(
            ClientCapabilities::default(),
            Implementation::new("answerable", env!("CARGO_PKG_VERSION")),
        );
        let params = params.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        let result = session.ask("initialize", value(params), deadline).await?;
        let greeting: Greeting = serde_json::from_str(result.get())
            .map_err(|_| Failure::Garbled("the server's greeting has no such form as the protocol wants"))?;
        let speaks = &greeting.protocol_version;
        if !ProtocolVersion::KNOWN_VERSIONS.contains(speaks) || !speaks.has_initialize() {
            return Err(Failure::Garbled(
                "the server speaks a version of the protocol that isn't known here",
            ));
        }
        session.begin(&greeting, deadline).await?;
        Ok(session)
    }

    async fn begin(&self, greeting: &Greeting, deadline: Instant) -> Result<(), Failure> {
        let ready = message::notification("notifications/initialized", None);
        match &*self.carrier {
            Carrier::Stdio(stdio) => stdio.tell(ready, deadline).await,
            Carrier::Http(http) => {
                http.speak(greeting.protocol_version.as_str());
                http.tell(ready, deadline).await?;
                if greeting.capabilities["tools"]["listChanged"] == json!(true) {
                    http.listen();
                }
                Ok(())
            }
        }
    }

    /// Asks and waits for the result until `deadline`.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: Value,
        deadline: Instant,
    ) -> Result<Box<RawValue>, Failure> {
        self.ask_until(method, params, None, std::future::pending(), deadline).await
    }

    /// The same for a call with its `traceparent`. If nobody waits for the answer any more, because it is late, this future
    /// is dropped or the call is off, the server is told. A call that is off is waited for all the same: what it came to is a
    /// fact, and a server need not heed what it is told.
    pub(super) async fn call(
        &self,
        params: Value,
        trace: &str,
        off: impl Future<Output = ()>,
        deadline: Instant,
    ) -> Result<Box<RawValue>, Failure> {
        self.ask_until("tools/call", params, Some(trace), off, deadline).await
    }

    async fn ask_until(
        &self,
        method: &str,
        mut params: Value,
        trace: Option<&str>,
        off: impl Future<Output = ()>,
        deadline: Instant,
    ) -> Result<Box<RawValue>, Failure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if params["_meta"].is_object() {
            params["_meta"]["progressToken"] = json!(id);
        }
        let (text, sent) = (message::request(id, method, &params), Sent::default());
        let mut awaited =
            Awaited { carrier: &self.carrier, id, sent: sent.clone(), is_settled: method == "initialize" };
        let mut asking = pin!(async {
            match &*self.carrier {
                Carrier::Http(http) => http.ask(id, text, trace, deadline, &sent).await,
                Carrier::Stdio(stdio) => stdio.ask(id, text, deadline, &sent).await,
            }
        });
        let result = tokio::select! {
            // What is off is not sent, even if it could be.
            biased;
            () = off => {
                if sent.give_up() {
                    return Err(Failure::NotSent("the call is off; nothing was sent".into()));
                }
                awaited.call_off();
                // A server that heeds it may say nothing more, and is none the worse for that.
                asking.await
            }
            result = &mut asking => {
                self.note(&result);
                result
            }
        };
        awaited.is_settled |= !matches!(result, Err(Failure::Late));
        self.touch();
        result
    }

    /// A process that leaves request after request unheard is as good as gone.
    fn note<T>(&self, result: &Result<T, Failure>) {
        if let (Carrier::Stdio(stdio), Err(Failure::Late | Failure::NotSent(_))) = (&*self.carrier, result) {
            stdio.note_unheard();
        }
    }

    /// The server knows it no more. False where that was known already.
    pub(super) fn lose(&self) -> bool {
        !self.is_lost.swap(true, Ordering::AcqRel)
    }

    /// Whether the server is known to know it no more.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether it can't be used any more, as far as is known.
    pub(super) fn is_over(&self) -> bool {
        self.is_lost()
            || matches!(&*self.carrier, Carrier::Stdio(stdio) if stdio.is_over() || stdio.is_stuck())
    }

    /// Whether there is a process behind it.
    pub(super) fn is_process(&self) -> bool {
        matches!(&*self.carrier, Carrier::Stdio(_))
    }

    /// The settings that it was opened under.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// It is in use now.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When it was last used.
    pub(super) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    // Only when nobody uses it any more: a server may break off what is under way in a session that ends.
    fn drop(&mut self) {
        match &*self.carrier {
            Carrier::Http(http) if !self.is_lost() => http.close(),
            Carrier::Http(_) => {}
            Carrier::Stdio(stdio) => stdio.close(),
        }
    }
}

/// A request that is awaited. Dropped while it is not settled, it is called off.
struct Awaited<'s> {
    carrier: &'s Arc<Carrier>,
    id: u64,
    sent: Sent,
    is_settled: bool,
}

impl Awaited<'_> {
    /// Tells the server, in a task of its own.
    fn call_off(&mut self) {
        self.is_settled = true;
        let Ok(id) = i64::try_from(self.id) else { return };
        let why = Some("nobody waits for it any more".to_owned());
        let params = CancelledNotificationParam::new(Some(RequestId::Number(id)), why);
        let text = message::notification("notifications/cancelled", Some(value(params)));
        let carrier = Arc::clone(self.carrier);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            let told = async {
                match &*carrier {
                    Carrier::Http(http) => http.tell(text, deadline).await,
                    Carrier::Stdio(stdio) => stdio.tell(text, deadline).await,
                }
            };
            let _ = timeout(PATIENCE, told).await;
        });
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if !self.is_settled && !self.sent.give_up() {
            self.call_off();
        }
    }
}

/// The model's types always have a JSON form.
fn value(params: impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_else(|_| json!({}))
}

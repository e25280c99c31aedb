//! Doing things once: the reservation, the effect and the answer of a request share one transaction.

use answerable_core::audit::Origin;
use answerable_core::id::TenantId;
use answerable_store::{Kept, KeptAnswer, KeptRequest, KeptTx, SystemTx, TenantTx};
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use uuid::Uuid;

use crate::auth::Standing;
use crate::body::{self, RequestBody};
use crate::origin;
use crate::problem::{Answer, Problem};
use crate::state::AppState;

/// The body of a POST, and what makes it safe to send again.
#[derive(Debug)]
pub(crate) struct Once<T> {
    /// The body.
    pub(crate) body: T,
    /// Its key, if it has one.
    pub(crate) key: OnceKey,
}

/// What a request is known by when it is sent again, and who asks.
#[derive(Debug, Clone)]
pub(crate) struct OnceKey {
    request: Option<KeptRequest>,
    origin: Origin,
    /// What a tenant's somebody asks with.
    standing: Option<Standing>,
}

/// Whether a request is new.
pub(crate) enum Turn<Tx = TenantTx> {
    /// It is: do it in this transaction.
    First(First<Tx>),
    /// It was answered before.
    Replay(Replay),
}

/// A transaction for a request that is new. Dropped without an answer, it changes nothing and keeps no key.
pub(crate) struct First<Tx = TenantTx> {
    /// The transaction.
    pub(crate) tx: Tx,
    request: Option<KeptRequest>,
}

/// An earlier answer.
pub(crate) struct Replay(KeptAnswer);

impl Replay {
    /// The run that the request made, or was about.
    pub(crate) fn run_id(&self) -> Option<Uuid> {
        self.0.run_id
    }

    /// The answer as it was.
    pub(crate) fn answer(self) -> Answer {
        Answer::replay(self.0)
    }
}

impl<Tx: KeptTx> First<Tx> {
    /// Keeps the answer with the effect.
    pub(crate) async fn answer(self, answer: Answer) -> Result<Answer, Problem> {
        self.keep(answer, None).await
    }

    /// The same for an answer that tells of a run: it goes when the run is deleted. A replay may show the run as it stands
    /// then.
    pub(crate) async fn answer_with_run(self, answer: Answer, run_id: Uuid) -> Result<Answer, Problem> {
        self.keep(answer, Some(run_id)).await
    }

    /// The answer to something that was done in part: what was done stays, and the same request again is a new one.
    pub(crate) async fn answer_for_now(mut self, answer: Answer) -> Result<Answer, Problem> {
        if let Some(request) = &self.request {
            self.tx.request_forget(request).await?;
        }
        self.tx.commit_all().await?;
        Ok(answer)
    }

    async fn keep(mut self, answer: Answer, run_id: Option<Uuid>) -> Result<Answer, Problem> {
        if let Some(request) = &self.request {
            self.tx.answer_keep(request, &KeptAnswer { run_id, ..answer.kept() }).await?;
        }
        self.tx.commit_all().await?;
        Ok(answer)
    }
}

impl OnceKey {
    /// Begins a tenant's request.
    pub(crate) async fn begin(&self, state: &AppState, tenant: TenantId) -> Result<Turn, Problem> {
        self.begin_in(origin::begin(state, tenant, &self.origin, self.standing.as_ref()).await?).await
    }

    /// Begins one of the operator's.
    pub(crate) async fn begin_as_operator(&self, state: &AppState) -> Result<Turn<SystemTx>, Problem> {
        let mut tx = state.store.system().await?;
        tx.asked_by(self.origin.clone());
        self.begin_in(tx).await
    }

    async fn begin_in<Tx: KeptTx>(&self, mut tx: Tx) -> Result<Turn<Tx>, Problem> {
        let Some(request) = self.request.clone() else { return Ok(Turn::First(First { tx, request: None })) };
        match tx.request_begin(&request).await? {
            Kept::New => Ok(Turn::First(First { tx, request: Some(request) })),
            Kept::Answered(answer) => Ok(Turn::Replay(Replay(answer))),
            Kept::Gone => Err(Problem::not_found()),
            Kept::Other => Err(Problem::idempotency_conflict()),
            Kept::UnderWay => {
                Err(Problem::conflict("The first request with this key is still under way.").after(1))
            }
        }
    }
}

impl<T: RequestBody> FromRequest<AppState> for Once<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let route = format!("{} {}", request.method(), request.uri().path());
        let key = key_of(request.headers());
        // Who asks is the first thing that is looked at.
        let origin = request.extensions().get::<Origin>().cloned();
        let origin = origin.ok_or_else(|| Problem::internal(format!("nobody asks for {route}")))?;
        let standing = request.extensions().get::<Standing>().cloned();
        let read = body::read::<T>(request, state).await?;
        let request = key?.map(|key| KeptRequest { route, key, hash: read.hash });
        Ok(Self { body: read.body, key: OnceKey { request, origin, standing } })
    }
}

pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=255).contains(&key.len()) && values.next().is_none());
    match key {
        Some(key) if key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => Ok(Some(key.to_owned())),
        _ => Err(Problem::invalid_at(
            "/header/idempotency-key",
            "must be 1 to 255 printable ASCII characters, once",
        )),
    }
}

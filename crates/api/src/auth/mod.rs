//! Who asks: somebody of a tenant with their scopes, the operator, or anybody.

mod operator;
mod principal;
mod scope;
mod standing;

use std::marker::PhantomData;

use answerable_core::audit::{Actor, Origin};
use answerable_core::id::TenantId;
use answerable_ports::Share;
use answerable_store::{TenantFacts, TenantTx, Voter};
use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::held::{Held, Who};
use crate::limits::Counted;
use crate::origin;
use crate::problem::Problem;
use crate::query;
use crate::state::AppState;
pub(crate) use operator::Operator;
use principal::Principal;
pub(crate) use scope::{Admin, AgentsWrite, Decide, ReadOrAgents, ReadOrDecide, RunsRead, RunsWrite, Scope};
pub(crate) use standing::{Standing, Stay};

/// Somebody of a tenant who may do what `S` stands for. The first extractor of every handler of tenants.
#[derive(Debug)]
pub(crate) struct Tenant<S> {
    /// The tenant.
    pub(crate) id: TenantId,
    /// Whether they have `admin`.
    pub(crate) is_admin: bool,
    /// Who it is.
    principal: Principal,
    /// How they proved it.
    pub(crate) standing: Standing,
    /// Whom they may speak for, if they do.
    acting_user: Option<String>,
    /// Whom they say that they speak for.
    said_user: Option<String>,
    /// Who and from where, as it is written down.
    pub(crate) origin: Origin,
    /// What the request holds while it is dealt with.
    held: Held,
    scope: PhantomData<S>,
}

impl<S> Tenant<S> {
    /// From here on the request only waits, and has this place until its answer is taken: others may have the one among those
    /// that are dealt with.
    pub(crate) fn waits(&self, place: Share<TenantId>) {
        self.held.waits(place);
    }

    /// Begins a transaction that does something in the name of who asks.
    pub(crate) async fn begin(&self, state: &AppState) -> Result<TenantTx, Problem> {
        origin::begin(state, self.id, &self.origin, Some(&self.standing)).await
    }

    /// Whether they may also do what `T` stands for.
    pub(crate) fn may<T: Scope>(&self) -> bool {
        self.is_admin || allows::<T>(self.principal.scopes())
    }

    /// Who asks, by what they prove: a key, or a person.
    pub(crate) fn asker(&self) -> String {
        self.principal.name()
    }

    /// All who count as having started what is started here: who asks, and whoever they say that they speak for. That may be
    /// said with any key, since it only takes rights away.
    pub(crate) fn creators(&self) -> Vec<String> {
        let user = self.said_user.as_ref().map(|user| format!("user:{user}"));
        std::iter::once(self.asker()).chain(user).collect()
    }

    /// Who decides: the user that the key's owner speaks for, or who asks.
    pub(crate) fn who(&self) -> String {
        self.acting_user.as_ref().map_or_else(|| self.asker(), |user| format!("user:{user}"))
    }
}

impl Tenant<Decide> {
    /// Who decides, with which key.
    pub(crate) fn voter(&self) -> Voter {
        Voter { by: self.who(), key: self.principal.key_id() }
    }
}

fn allows<S: Scope>(scopes: &[String]) -> bool {
    S::ANY_OF.iter().any(|scope| scopes.iter().any(|own| own == scope))
}

impl<S: Scope> FromRequestParts<AppState> for Tenant<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let (principal, standing) = principal::principal(parts, state).await?;
        let tenant = principal.tenant();
        let held = take_up(parts, state, tenant).await?;
        let is_admin = principal.scopes().iter().any(|own| own == "admin");
        if !is_admin && !allows::<S>(principal.scopes()) {
            let needed = S::ANY_OF.first().copied().unwrap_or("admin");
            return Err(Problem::forbidden(format!("This needs the scope {needed}.")));
        }
        query::check_names(parts)?;
        let said_user = acting_user(parts)?;
        let (acting_user, actor) = match &principal {
            Principal::Key(facts) => {
                let speaks_for_others = is_admin || allows::<Decide>(&facts.scopes);
                let user = said_user.clone().filter(|_| speaks_for_others);
                (user.clone(), Actor::Key { key_id: facts.key_id, user })
            }
            Principal::Person(_) if said_user.is_some() => {
                return Err(Problem::forbidden("Who has a name of their own speaks for nobody else."));
            }
            Principal::Person(person) => (None, Actor::Person { user: person.user.to_string() }),
        };
        let (id, origin) = (tenant.tenant_id, origin::note(parts, actor));
        parts.extensions.insert(standing.clone());
        Ok(Self {
            id,
            is_admin,
            principal,
            standing,
            acting_user,
            said_user,
            origin,
            held,
            scope: PhantomData,
        })
    }
}

/// Takes a place for a request of a tenant and counts it, whatever it will be answered.
async fn take_up(parts: &Parts, state: &AppState, tenant: &TenantFacts) -> Result<Held, Problem> {
    let held = Held::of(parts);
    held.take_place(state, Who::Tenant(tenant.tenant_id)).await?;
    if let Some(most) = tenant.max_requests_per_minute {
        count(state, &held, tenant.tenant_id, most).await?;
    }
    Ok(held)
}

/// Counts a request, and notes what is left for its answer.
async fn count(state: &AppState, held: &Held, tenant: TenantId, most: u64) -> Result<(), Problem> {
    match state.limits.count(&state.store, tenant, most).await? {
        Counted::Within(left) => {
            held.note(left);
            Ok(())
        }
        Counted::Beyond(left) => {
            held.note(left);
            Err(Problem::rate_limited(left.reset()))
        }
    }
}

pub(crate) fn acting_user(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get("x-acting-user") else { return Ok(None) };
    let name = value.to_str().ok().filter(|name| (1..=128).contains(&name.len()));
    match name {
        Some(name) if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => Ok(Some(name.to_owned())),
        _ => Err(Problem::invalid_at("/header/x-acting-user", "must be 1 to 128 printable ASCII characters")),
    }
}

/// Anybody: the server's own pages, and links that carry their own proof.
#[derive(Debug)]
pub(crate) struct Anybody;

impl<S: Sync> FromRequestParts<S> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        query::check_names(parts)?;
        Ok(Self)
    }
}

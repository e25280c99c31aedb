//! A queue that is written past all rules, and what is claimed of it.

use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_ports::{Claimed, Room, RunStore as _};
use answerable_store::{ConnectOptions, EngineStore, Sealer, Signals, Store};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::model::{Owner, Queued};
use crate::world::World;

pub(super) const LONG: Duration = Duration::from_secs(60);

/// A database, as servers that were just started see it.
pub(super) struct Queue {
    pub(super) world: World,
    su: PgConnection,
}

impl Queue {
    pub(super) async fn new() -> Self {
        let world = World::new().await;
        let su = PgConnection::connect(world.url()).await.expect("a connection");
        Self { world, su }
    }

    /// One more server on the database.
    pub(super) fn server(&self) -> EngineStore {
        let options =
            ConnectOptions { url: self.world.url().into(), max_connections: 4, prepared_statements: true };
        let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
        EngineStore::new(store, "https://answers.example".into(), false)
    }

    pub(super) async fn tenant(&mut self, owner: &Owner) {
        let mut quotas = json!({"weight": owner.weight});
        if let Some(max) = owner.max {
            quotas["max_concurrent_runs"] = max.into();
        }
        let row = "INSERT INTO tenants (tenant_id, name, quotas, suspended_at) VALUES ($1, 'a', $2, CASE WHEN $3 THEN now() END)";
        let row = sqlx::query(row).bind(owner.id).bind(quotas).bind(owner.suspended);
        row.execute(&mut self.su).await.expect("a tenant");
        let spec = "INSERT INTO agent_specs (tenant_id, spec_hash, spec) VALUES ($1, 's', '{}')";
        sqlx::query(spec).bind(owner.id).execute(&mut self.su).await.expect("a spec");
        let thread = "INSERT INTO threads (tenant_id, thread_id, workspace_id)
                      SELECT $1, md5($1::text || n)::uuid, $1 FROM generate_series(1, 3) n";
        sqlx::query(thread).bind(owner.id).execute(&mut self.su).await.expect("threads");
    }

    /// Puts a run there, as it stands.
    pub(super) async fn put(&mut self, run: &Queued) {
        let row = "WITH made AS (
                INSERT INTO runs (tenant_id, run_id, ord, spec_hash, workspace_id, context, metadata, budgets, trace_id, created_by,
                    thread_id)
                VALUES ($1, $2, $3, 's', $1, '{}', '{}', '{}', repeat('0', 32), 'x', md5($1::text || $4)::uuid)
            ), stated AS (
                INSERT INTO run_states (tenant_id, run_id, state) VALUES ($1, $2, '{}')
            )
            INSERT INTO run_queue (tenant_id, run_id, ord, thread_id, concurrency_key, priority, wake_at, expires_at, started, ended,
                urgent, needs, lease_owner, lease_until)
            VALUES ($1, $2, $3, md5($1::text || $4)::uuid, $5, $6, now() + $7 * interval '1 second', now() + $8 * interval '1 second',
                $9, $10, $11, $12, CASE WHEN $13 THEN $1 END, CASE WHEN $13 THEN now() + interval '1 hour' END)";
        let row = sqlx::query(row).bind(run.owner).bind(run.id).bind(run.ord);
        let row = row.bind(run.thread).bind(&run.key).bind(run.priority).bind(run.wakes).bind(run.expires);
        let row = row.bind(run.started).bind(run.ended).bind(run.urgent).bind(run.needs).bind(run.held);
        row.execute(&mut self.su).await.expect("a run");
    }

    /// Plain runs of a tenant, all due.
    pub(super) async fn fill(&mut self, owner: &Owner, runs: usize) {
        for _ in 0..runs {
            self.put(&Queued::plain(owner.id)).await;
        }
    }

    /// Forgets all of it.
    pub(super) async fn clear(&mut self) {
        sqlx::query("DELETE FROM runs").execute(&mut self.su).await.expect("gone");
        sqlx::query("DELETE FROM tenants").execute(&mut self.su).await.expect("gone");
    }

    pub(super) async fn tell(&mut self, statement: &'static str, id: Uuid) {
        sqlx::query(statement).bind(id).execute(&mut self.su).await.expect("done");
    }

    pub(super) async fn ask<T>(&mut self, question: &'static str, id: Uuid) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(question).bind(id).fetch_one(&mut self.su).await.expect("an answer")
    }

    /// The run is over.
    pub(super) async fn end(&mut self, run: RunId) {
        self.tell("DELETE FROM run_queue WHERE run_id = $1", run.0).await;
    }
}

/// What a server claims.
pub(super) async fn claims(server: &EngineStore, limit: usize) -> Vec<Claimed> {
    claims_in(server, &Room { limit, ..Room::default() }).await
}

pub(super) async fn claims_in(server: &EngineStore, room: &Room<'_>) -> Vec<Claimed> {
    server.claim(Uuid::now_v7(), room, LONG).await.expect("claims").runs
}

/// How many of the claimed runs are this tenant's.
pub(super) fn of(claimed: &[Claimed], owner: &Owner) -> usize {
    claimed.iter().filter(|claimed| claimed.lease.tenant_id == TenantId(owner.id)).count()
}

/// A tenant of this weight.
pub(super) fn owner(weight: i64) -> Owner {
    Owner { id: Uuid::new_v4(), weight, max: None, suspended: false }
}

/// Keeps quotas readable in one place.
pub(super) fn limited(max: i64) -> Owner {
    Owner { max: Some(max), ..owner(1) }
}

/// What is stored of a run's place, for a message.
pub(super) async fn shown(queue: &mut Queue, run: Uuid) -> Value {
    queue.ask("SELECT to_jsonb(q) FROM run_queue q WHERE run_id = $1", run).await
}

//! The shop: a real service with its own tables. It knows nothing of agents; it is called over
//! HTTP, commits what it is told to and, by its `--idempotency` switch, either dedupes by
//! `Idempotency-Key` or, like many a service out there, doesn't.

mod answer;
mod audit;
mod faults;
mod find_order;
mod line;
mod lookup;
mod mails;
mod orders;
mod refunds;
mod request;
mod tables;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use clap::{Args, ValueEnum};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::parent;

pub(crate) use audit::Books;
pub(crate) use faults::{Fault, Kind as FaultKind};

/// How to run the shop.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// The shop's own database; its tables are made at the start.
    #[arg(long, env = "SHOP_DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The bearer token that every caller must show.
    #[arg(long, env = "SHOP_TOKEN", hide_env_values = true)]
    token: String,
    /// Whether a second order under a known Idempotency-Key is the first one again, or another order.
    #[arg(long, value_enum, default_value_t = Idempotency::Ignore)]
    idempotency: Idempotency,
    /// End when standard input closes.
    #[arg(long)]
    exit_with_parent: bool,
}

/// What the shop does with an `Idempotency-Key` that it has seen before.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Idempotency {
    /// Gives the first answer again; nothing is made twice.
    Honour,
    /// Stores the key and makes another order all the same.
    Ignore,
}

/// Why the shop could not run.
#[derive(Debug, Error)]
pub(crate) enum ShopError {
    #[error("the shop's database: {0}")]
    Database(#[from] sqlx::Error),
    #[error("the shop's socket: {0}")]
    Socket(#[from] std::io::Error),
}

/// What every handler works with.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    token: Arc<str>,
    idempotency: Idempotency,
    faults: faults::Faults,
}

/// Runs the shop until it is told to end.
pub(crate) async fn run(options: Options) -> Result<(), ShopError> {
    let pool = PgPoolOptions::new().max_connections(8).connect(&options.database_url).await?;
    tables::create(&pool).await?;
    let shop = Shop {
        pool,
        token: options.token.into(),
        idempotency: options.idempotency,
        faults: faults::Faults::default(),
    };
    let listener = TcpListener::bind(options.listen).await?;
    tokio::select! {
        served = serve(listener, shop) => Ok(served?),
        () = parent::told_to_end(options.exit_with_parent) => Ok(()),
    }
}

async fn serve(listener: TcpListener, shop: Shop) -> std::io::Result<()> {
    let service = routes(shop).into_make_service_with_connect_info::<line::Line>();
    axum::serve(line::Lines::new(listener), service).await
}

fn routes(shop: Shop) -> Router {
    let tools = Router::new()
        .route("/customers", get(lookup::find_customer))
        .route("/stock/{sku}", get(lookup::check_stock))
        .route("/orders", post(orders::create_order))
        .route("/orders/find", get(find_order::find_order))
        .route("/refunds", post(refunds::refund))
        .route("/mails", post(mails::send_mail))
        .route_layer(middleware::from_fn_with_state(shop.clone(), faults::play));
    let admin =
        Router::new().route("/admin/faults", post(faults::arm)).route("/admin/audit", get(audit::audit));
    tools
        .merge(admin)
        .layer(middleware::from_fn_with_state(shop.clone(), request::only_known_callers))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(shop)
}

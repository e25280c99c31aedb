//! Reading: customers and stock.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};

use super::Shop;
use super::answer::Refusal;

#[derive(Deserialize)]
pub(super) struct CustomerQuery {
    email: String,
}

#[derive(Serialize, sqlx::FromRow)]
pub(super) struct Customer {
    customer_id: i64,
    email: String,
    name: String,
}

/// `GET /customers?email=`: the customer who writes from this address.
pub(super) async fn find_customer(
    State(shop): State<Shop>,
    Query(query): Query<CustomerQuery>,
) -> Result<Json<Customer>, Refusal> {
    sqlx::query_as("SELECT customer_id, email, name FROM customers WHERE email = lower($1)")
        .bind(&query.email)
        .fetch_optional(&shop.pool)
        .await?
        .map(Json)
        .ok_or_else(|| Refusal::NotFound(format!("no customer writes from {}", query.email)))
}

#[derive(Serialize, sqlx::FromRow)]
pub(super) struct Stock {
    sku: String,
    name: String,
    price_cents: i64,
    available: i64,
}

/// `GET /stock/{sku}`: the product's name and price, and how many are on the shelf.
pub(super) async fn check_stock(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
) -> Result<Json<Stock>, Refusal> {
    sqlx::query_as("SELECT sku, name, price_cents, available FROM stock WHERE sku = upper($1)")
        .bind(&sku)
        .fetch_optional(&shop.pool)
        .await?
        .map(Json)
        .ok_or_else(|| Refusal::NotFound(format!("the shop has no product {sku}")))
}

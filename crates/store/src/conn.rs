//! The connection of a transaction, as queries use it: behind a pooler no statement outlives its transaction.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr};

/// A connection within a transaction.
#[derive(Debug)]
pub(crate) struct Conn<'c> {
    pub(crate) raw: &'c mut PgConnection,
    /// Prepared statements stay on the server. A pooler hands its servers from client to client, so what one client has
    /// prepared there another would run into; unnamed statements are gone with the transaction.
    pub(crate) prepared: bool,
}

impl Conn<'_> {
    /// The same for another query.
    pub(crate) fn again(&mut self) -> Conn<'_> {
        Conn { raw: self.raw, prepared: self.prepared }
    }
}

/// A query whose statement is kept only if both it and the connection want that.
struct Kept<Q> {
    query: Q,
    prepared: bool,
}

impl<'q, Q: Execute<'q, Postgres>> Execute<'q, Postgres> for Kept<Q> {
    fn sql(self) -> SqlStr {
        self.query.sql()
    }

    fn statement(&self) -> Option<&PgStatement> {
        self.query.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        self.query.take_arguments()
    }

    fn persistent(&self) -> bool {
        self.prepared && self.query.persistent()
    }
}

impl<'c> Executor<'c> for Conn<'c> {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        self.raw.fetch_many(Kept { query, prepared: self.prepared })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        self.raw.fetch_optional(Kept { query, prepared: self.prepared })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        self.raw.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<sqlx::Describe<Postgres>, Error>>
    where
        'c: 'e,
    {
        self.raw.describe(sql)
    }
}

//! The keys that encrypt what tenants entrust: what they open, and wrapping it anew.

use std::time::Duration;

use answerable_store::{ConnectOptions, SealedValues, Sealer, Signals, Store, StoreError, Wrapping};
use secrecy::ExposeSecret;

use crate::Failure;
use crate::config::{Database, Log, SecretKey};

/// One transaction at a time, and one beside it for the audit.
const CONNECTIONS: u32 = 2;
/// How long a database that is away is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// What encrypts with `key` and opens with any of them.
pub(crate) fn sealer(key: &SecretKey, others: &[SecretKey]) -> Sealer {
    let others: Vec<&[u8; 32]> = others.iter().map(SecretKey::expose).collect();
    Sealer::with_others(key.expose(), &others)
}

/// A server that can open nothing of what is stored has the wrong key. One that can't open some says so.
///
/// # Errors
/// It can open nothing.
pub(super) async fn refuse_other_keys(store: &Store) -> Result<(), Failure> {
    let (all, open) = loop {
        match store.sealed_sample().await {
            Ok(found) => break found,
            Err(StoreError::Away(why)) => {
                tracing::warn!(%why, "the database is away; it is tried again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(Failure::new(error)),
        }
    };
    if all > 0 && open == 0 {
        return Err(Failure::misconfigured(
            "ANSWERABLE_SECRET_KEY opens none of the secrets that are stored: it is another one than they were stored with \
             (the one before goes into ANSWERABLE_OTHER_SECRET_KEYS)",
        ));
    }
    if open < all {
        tracing::warn!(
            closed = all - open,
            of = all,
            "the configured keys don't open all stored secrets; `answerable secrets status` says which"
        );
    }
    Ok(())
}

/// Goes through all that is stored encrypted, over the database's direct URL.
///
/// # Errors
/// The database is away or not migrated.
pub(crate) async fn look_at_secrets(
    database: &Database,
    sealer: Sealer,
    log: &Log,
    wrapping: Wrapping,
) -> Result<SealedValues, Failure> {
    super::start_logs(log)?;
    let url = database.direct().expose_secret().to_owned();
    let options = ConnectOptions { url, max_connections: CONNECTIONS, prepared_statements: true };
    let store = Store::connect(&options, sealer, Signals::new().0).map_err(Failure::new)?;
    store.check().await.map_err(Failure::new)?;
    store.sealed_values(wrapping).await.map_err(Failure::new)
}

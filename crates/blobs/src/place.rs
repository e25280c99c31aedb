//! Where contents are kept.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, Error, ObjectStore, RetryConfig};
use secrecy::{ExposeSecret as _, SecretString};

/// Time that one request may take, its body included.
const REQUEST: Duration = Duration::from_secs(30);
/// Time that connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Time within which a request is tried again.
const TRYING: Duration = Duration::from_secs(20);
const TRIES: usize = 3;

/// Where contents are kept.
#[derive(Debug, Clone)]
pub enum BlobPlace {
    /// A folder that all servers share; made when it is needed.
    Folder(PathBuf),
    /// A bucket, in AWS or in a service that speaks the same.
    S3 {
        /// The bucket.
        bucket: String,
        /// What the names of all objects begin with; may be empty.
        prefix: String,
        /// Variables with their values, such as `AWS_REGION`. Those that aren't known are let be.
        variables: Vec<(String, SecretString)>,
    },
}

/// A place makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoPlace(String);

impl BlobPlace {
    /// What the names of all objects begin with.
    pub(crate) fn prefix(&self) -> Path {
        match self {
            Self::Folder(_) => Path::default(),
            Self::S3 { prefix, .. } => Path::from(prefix.as_str()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), NoPlace> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::S3 { bucket, variables, .. } => {
                s3(bucket, variables).map(|_| ()).map_err(|error| NoPlace(error.to_string()))
            }
        }
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        match self {
            Self::Folder(folder) => {
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.map_err(|source| Error::Generic { store: "folder", source: Box::new(source) })?;
                Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)))
            }
            Self::S3 { bucket, variables, .. } => Ok(Arc::new(s3(bucket, variables)?)),
        }
    }
}

fn s3(bucket: &str, variables: &[(String, SecretString)]) -> Result<AmazonS3, Error> {
    let options = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(CONNECT);
    let retry = RetryConfig { max_retries: TRIES, retry_timeout: TRYING, backoff: BackoffConfig::default() };
    let mut builder = AmazonS3Builder::new().with_client_options(options).with_retry(retry);
    for (name, value) in variables {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value.expose_secret());
        }
    }
    builder.with_bucket_name(bucket).build()
}

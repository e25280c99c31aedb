//! Where the contents of large files are kept.

use answerable_blobs::BlobPlace;
use secrecy::SecretString;
use url::Url;

use super::{Invalid, Layers};

/// The place that is set, if one is.
pub(crate) fn place(layers: &Layers) -> Result<Option<BlobPlace>, Invalid> {
    layers.get("blobs", |text| read(text, layers.aws()))
}

fn read(text: &str, variables: &[(String, SecretString)]) -> Result<BlobPlace, String> {
    let wrong = || format!("is {text:?}, and a place like file:///srv/blobs or s3://bucket/prefix is needed");
    let url = Url::parse(text).map_err(|_| wrong())?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(wrong());
    }
    match (url.scheme(), url.host_str()) {
        ("file", None) => url.to_file_path().map(BlobPlace::Folder).map_err(|()| wrong()),
        ("s3", Some(bucket)) => Ok(BlobPlace::S3 {
            bucket: bucket.to_owned(),
            prefix: url.path().trim_matches('/').to_owned(),
            variables: variables.to_vec(),
        }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn folders_and_buckets_are_told_apart() {
        let variables = [("AWS_REGION".to_owned(), SecretString::from("eu-1"))];
        let place = |text| read(text, &variables);
        let Ok(BlobPlace::Folder(folder)) = place("file:///srv/large%20files") else { panic!("a folder") };
        assert_eq!(folder, PathBuf::from("/srv/large files"));
        for (text, wanted) in [("s3://files", ""), ("s3://files/", ""), ("s3://files/a/b/", "a/b")] {
            let Ok(BlobPlace::S3 { bucket, prefix, variables }) = place(text) else { panic!("{text}") };
            assert_eq!((bucket.as_str(), prefix.as_str()), ("files", wanted));
            assert_eq!(variables[0].1.expose_secret(), "eu-1");
        }
        for text in
            ["/srv/blobs", "blobs", "file://host/srv", "s3:///a", "https://s3/a", "s3://b/?x", "s3://u@b/"]
        {
            assert!(place(text).expect_err(text).contains("is needed"), "{text}");
        }
    }
}

//! Contents in a folder.

use std::os::unix::fs::PermissionsExt as _;

use answerable_blobs::{BlobPlace, Blobs};
use answerable_core::id::TenantId;
use answerable_ports::{BlobHash, BlobStore as _};
use bytes::Bytes;
use uuid::Uuid;

const HASH: BlobHash = BlobHash([0xab; 32]);

#[tokio::test]
async fn each_tenant_has_its_own_and_they_outlive_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = BlobPlace::Folder(folder.path().join("not/there/yet"));
    let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
    let blobs = Blobs::new(place.clone()).expect("a place");
    assert!(!folder.path().join("not").exists(), "made before anybody needs it");
    assert_eq!(blobs.get(a, HASH, 9).await.expect("an answer"), None);
    for _ in 0..2 {
        blobs.put(a, HASH, Bytes::from_static(b"large")).await.expect("kept");
    }
    let made = folder.path().join("not/there/yet");
    assert_eq!(made.metadata().expect("a folder").permissions().mode() & 0o777, 0o700);
    assert_eq!(blobs.get(b, HASH, 9).await.expect("an answer"), None, "another tenant's");

    let blobs = Blobs::new(place).expect("a place");
    assert_eq!(blobs.get(a, HASH, 5).await.expect("an answer").as_deref(), Some(b"large" as &[u8]));
    assert!(blobs.get(a, HASH, 4).await.is_err(), "longer than it was");
    blobs.remove(a, HASH).await.expect("gone");
    blobs.remove(a, HASH).await.expect("gone already");
    assert_eq!(blobs.get(a, HASH, 9).await.expect("an answer"), None);
}

#[tokio::test]
async fn what_a_tenant_has_goes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::new(BlobPlace::Folder(folder.path().to_owned())).expect("a place");
    let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
    for tenant in [a, b] {
        for number in 0..3 {
            blobs.put(tenant, BlobHash([number; 32]), Bytes::from_static(b"x")).await.expect("kept");
        }
    }
    blobs.remove_all(a).await.expect("gone");
    for number in 0..3 {
        let hash = BlobHash([number; 32]);
        assert_eq!(blobs.get(a, hash, 9).await.expect("an answer"), None);
        assert!(blobs.get(b, hash, 9).await.expect("an answer").is_some(), "the other tenant's stay");
    }
    blobs.remove_all(a).await.expect("gone already");
}

//! Contents in a folder.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use answerable_blobs::{BlobPlace, Blobs};
use answerable_core::id::TenantId;
use answerable_ports::{BlobHash, BlobName, BlobStore as _};
use bytes::Bytes;
use uuid::Uuid;

const NAME: BlobName = BlobName { hash: BlobHash([0xab; 32]), object: Uuid::from_u128(7) };

fn named(number: u8) -> BlobName {
    BlobName { hash: BlobHash([number; 32]), ..NAME }
}

/// The folders of a tenant within a place, and the file of a content.
fn file_of(place: &Path, tenant: TenantId, name: BlobName) -> PathBuf {
    let name = name.to_string();
    place.join(tenant.0.hyphenated().to_string()).join(&name[..2]).join(name)
}

#[tokio::test]
async fn each_tenant_has_its_own_and_they_outlive_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = BlobPlace::Folder(folder.path().join("not/there/yet"));
    let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
    let blobs = Blobs::new(place.clone()).expect("a place");
    assert!(!folder.path().join("not").exists(), "made before anybody needs it");
    assert_eq!(blobs.get(a, NAME, 9).await.expect("an answer"), None);
    for _ in 0..2 {
        blobs.put(a, NAME, Bytes::from_static(b"large")).await.expect("kept");
    }
    let made = folder.path().join("not/there/yet");
    assert_eq!(made.metadata().expect("a folder").permissions().mode() & 0o777, 0o700);
    assert_eq!(blobs.get(b, NAME, 9).await.expect("an answer"), None, "another tenant's");

    let blobs = Blobs::new(place).expect("a place");
    assert_eq!(blobs.get(a, NAME, 5).await.expect("an answer").as_deref(), Some(b"large" as &[u8]));
    assert!(blobs.get(a, NAME, 4).await.is_err(), "longer than it was");
    blobs.remove(a, NAME).await.expect("gone");
    blobs.remove(a, NAME).await.expect("gone already");
    assert_eq!(blobs.get(a, NAME, 9).await.expect("an answer"), None);
}

#[tokio::test]
async fn what_a_tenant_has_goes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::new(BlobPlace::Folder(folder.path().to_owned())).expect("a place");
    let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
    for tenant in [a, b] {
        for number in 0..3 {
            blobs.put(tenant, named(number), Bytes::from_static(b"x")).await.expect("kept");
        }
    }
    blobs.remove_all(a).await.expect("gone");
    for number in 0..3 {
        assert_eq!(blobs.get(a, named(number), 9).await.expect("an answer"), None);
        assert!(
            blobs.get(b, named(number), 9).await.expect("an answer").is_some(),
            "the other tenant's stay"
        );
    }
    blobs.remove_all(a).await.expect("gone already");
}

#[tokio::test]
async fn what_a_dead_write_left_goes_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let tenant = TenantId(Uuid::from_u128(1));
    let blobs = Blobs::new(BlobPlace::Folder(root.to_owned())).expect("a place");
    blobs.put(tenant, NAME, Bytes::from_static(b"whole")).await.expect("kept");
    let kept = file_of(root, tenant, NAME);
    let left = |number: u32, hours: u64| {
        let path = kept.with_file_name(format!("{NAME}#{number}"));
        let file = File::create(&path).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).expect("a time");
        path
    };
    let (young, old) = (left(1, 1), left(2, 25));
    File::options().write(true).open(&kept).expect("a file").set_modified(UNIX_EPOCH).expect("a time");
    assert_eq!(blobs.sweep().await.expect("swept"), 1);
    assert!(young.exists() && kept.exists() && !old.exists());
    let again = left(3, 25);
    assert_eq!(blobs.sweep().await.expect("swept"), 0, "once a day is enough");
    assert!(again.exists());
    blobs.remove_all(tenant).await.expect("gone");
    assert!(!root.join(tenant.0.hyphenated().to_string()).exists(), "nothing of a tenant stays");
}

#[tokio::test]
async fn a_place_that_nobody_made_yet_is_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = Blobs::new(BlobPlace::Folder(folder.path().join("none"))).expect("a place");
    assert_eq!(blobs.sweep().await.expect("swept"), 0);
    blobs.remove_all(TenantId(Uuid::nil())).await.expect("gone already");
}

//! Wrong settings stop the start with one clear line.

use std::process::Output;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::binary;

const GOOD: [(&str, &str); 4] = [
    ("DATABASE_URL", "postgres://nobody@127.0.0.1:9/nothing"),
    ("ANSWERABLE_OPERATOR_KEY", "operator-0123456789abcdef"),
    ("ANSWERABLE_SECRET_KEY", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
    ("ANSWERABLE_LISTEN", "127.0.0.1:1"),
];

/// What came of `answerable serve` with these settings; an empty one is not set.
async fn serve(changes: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.arg("serve").current_dir("/").env_clear().kill_on_drop(true);
    for (name, value) in GOOD.iter().chain(changes) {
        command.env(name, value);
    }
    let ended = timeout(Duration::from_secs(20), command.output()).await;
    ended.unwrap_or_else(|_| panic!("it started with {changes:?}")).expect("the program runs")
}

#[tokio::test]
async fn the_line_names_the_setting() {
    let table = [
        ("DATABASE_URL", ""),
        ("DATABASE_URL", "mysql://somewhere"),
        ("ANSWERABLE_OPERATOR_KEY", ""),
        ("ANSWERABLE_OPERATOR_KEY", "short"),
        ("ANSWERABLE_SECRET_KEY", ""),
        ("ANSWERABLE_LISTEN", "somewhere"),
        ("ANSWERABLE_LEASE_MS", "soon"),
        ("ANSWERABLE_EGRESS_ALLOW", "10.0.0.0/99"),
        ("ANSWERABLE_OIDC_ISSUER", "https://id.example"),
        ("ANSWERABLE_OIDC_AUDIENCE", "answerable"),
        ("ANSWERABLE_LEASE_SM", "1000"),
    ];
    for (name, value) in table {
        let output = serve(&[(name, value)]).await;
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name}={value} started");
        assert!(words.contains(name) && words.trim().lines().count() == 1, "{name}={value}: {words}");
        assert!(!words.contains(GOOD[2].1), "the key is in it: {words}");
    }
}

use super::*;

const OPERATOR: &str = "0123456789abcdef";
const PASSPHRASE: &str = "a passphrase of more than 32 characters";

fn draft(pairs: &[(&str, &str)]) -> Result<Draft, String> {
    let environment = pairs.iter().map(|(name, text)| ((*name).into(), (*text).into()));
    Layers::stack(vec![], environment, None).and_then(|layers| Draft::read(&layers)).map_err(|e| e.0)
}

#[test]
fn nothing_set_gives_the_defaults() {
    let draft = draft(&[]).expect("valid");
    assert!(draft.database.is_none() && draft.operator_key.is_none() && draft.secret_key.is_none());
    assert_eq!(draft.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(draft.public_url.as_str(), "http://127.0.0.1:8080/");
    assert_eq!(draft.egress_allow, EgressAllow::default());
    assert_eq!(draft.data_dir, PathBuf::from(".answerable"));
    let limits = Limits {
        lease: Duration::from_secs(10),
        max_running: 500,
        drain: Duration::from_secs(20),
        max_body_bytes: 4 << 20,
        max_requests: 512,
        max_streams: 16_000,
        max_connections_per_address: None,
    };
    assert_eq!(draft.limits, limits);
    assert_eq!(draft.retention, Retention { journal_days: 30, runs_days: None });
    assert!(!draft.telemetry.exports_spans() && draft.telemetry.metrics.is_none());
    assert_eq!(draft.telemetry.backlog, 100_000);
    assert!(draft.blobs.is_none());
    assert_eq!(draft.log, Log { filter: "info".to_owned(), format: LogFormat::Pretty });
}

#[test]
fn everything_set_is_taken() {
    let config = draft(&[
        ("DATABASE_URL", "postgres://pooled/db"),
        ("ANSWERABLE_DATABASE_DIRECT_URL", "postgres://direct/db"),
        ("ANSWERABLE_OPERATOR_KEY", OPERATOR),
        ("ANSWERABLE_SECRET_KEY", PASSPHRASE),
        ("ANSWERABLE_LISTEN", "0.0.0.0:9000"),
        ("ANSWERABLE_EGRESS_ALLOW", "10.0.0.0/8,shop"),
        ("ANSWERABLE_LEASE_MS", "1500"),
        ("ANSWERABLE_MAX_RUNNING", "7"),
        ("ANSWERABLE_DRAIN_MS", "0"),
        ("ANSWERABLE_MAX_BODY_BYTES", "2048"),
        ("ANSWERABLE_MAX_REQUESTS", "8"),
        ("ANSWERABLE_MAX_STREAMS", "9"),
        ("ANSWERABLE_MAX_CONNECTIONS_PER_ADDRESS", "10"),
        ("ANSWERABLE_KEEP_JOURNAL_DAYS", "7"),
        ("ANSWERABLE_KEEP_RUNS_DAYS", "3650"),
        ("ANSWERABLE_TRACE_BACKLOG", "500"),
        ("ANSWERABLE_BLOBS", "s3://files/of/answerable"),
        ("AWS_SECRET_ACCESS_KEY", "eighteen-secrets"),
        ("ANSWERABLE_LOG", "debug"),
        ("ANSWERABLE_LOG_FORMAT", "json"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=seventeen-secrets"),
    ])
    .expect("valid")
    .complete()
    .expect("complete");
    assert_eq!(config.database.url.expose_secret(), "postgres://pooled/db");
    assert_eq!(config.database.direct().expose_secret(), "postgres://direct/db");
    assert_eq!(config.public_url.as_str(), "http://127.0.0.1:9000/", "links must lead somewhere");
    assert_eq!(config.limits.lease, Duration::from_millis(1500));
    assert_eq!((config.limits.max_running, config.limits.max_body_bytes), (7, 2048));
    assert_eq!((config.limits.max_requests, config.limits.max_streams), (8, 9));
    assert_eq!(config.limits.max_connections_per_address, Some(10));
    assert_eq!(config.retention, Retention { journal_days: 7, runs_days: Some(3650) });
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.egress_allow.hosts, ["shop"]);
    assert_eq!((config.telemetry.exports_spans(), config.telemetry.backlog), (true, 500));
    let BlobPlace::S3 { bucket, prefix, .. } = &config.blobs else { panic!("a bucket") };
    assert_eq!((bucket.as_str(), prefix.as_str()), ("files", "of/answerable"));
    let printed = format!("{config:?}");
    assert!(!printed.contains("seventeen") && !printed.contains("eighteen"));
    assert!(!printed.contains(OPERATOR) && !printed.contains("pooled") && !printed.contains(PASSPHRASE));
}

#[test]
fn what_is_malformed_is_said_in_one_line_that_names_it() {
    for (name, text, says) in [
        ("DATABASE_URL", "mysql://x/y", "begins with mysql://, and postgres:// is needed"),
        ("ANSWERABLE_LISTEN", "8080", "is \"8080\", and an address like 127.0.0.1:8080 is needed"),
        ("ANSWERABLE_PUBLIC_URL", "x", "is \"x\", and a URL like https://answerable.example is needed"),
        ("ANSWERABLE_OPERATOR_KEY", "short", "is too short"),
        ("ANSWERABLE_SECRET_KEY", "short", "is too weak"),
        ("ANSWERABLE_OTHER_SECRET_KEYS", "short", "has a key that is too weak"),
        ("ANSWERABLE_EGRESS_ALLOW", "10.0.0.0/99", "has \"10.0.0.0/99\""),
        ("ANSWERABLE_LEASE_MS", "499", "is \"499\", and a whole number from 500 to 600000 is needed"),
        ("ANSWERABLE_LEASE_MS", "600001", "is \"600001\""),
        ("ANSWERABLE_LEASE_MS", "ten", "is \"ten\""),
        ("ANSWERABLE_MAX_RUNNING", "0", "is \"0\""),
        ("ANSWERABLE_DRAIN_MS", "-1", "is \"-1\""),
        ("ANSWERABLE_MAX_BODY_BYTES", "10", "is \"10\""),
        ("ANSWERABLE_MAX_REQUESTS", "7", "is \"7\""),
        ("ANSWERABLE_MAX_STREAMS", "0", "is \"0\""),
        ("ANSWERABLE_MAX_CONNECTIONS_PER_ADDRESS", "0", "is \"0\""),
        ("ANSWERABLE_KEEP_JOURNAL_DAYS", "0", "is \"0\", and a whole number from 1 to 3650 is needed"),
        ("ANSWERABLE_KEEP_RUNS_DAYS", "3651", "is \"3651\", and a whole number from 1 to 3650 is needed"),
        ("ANSWERABLE_TRACE_BACKLOG", "0", "is \"0\", and a whole number from 1 to 100000000 is needed"),
        (
            "ANSWERABLE_BLOBS",
            "/srv",
            "is \"/srv\", and a place like file:///srv/blobs or s3://bucket/prefix is needed",
        ),
        ("OTEL_TRACES_EXPORTER", "zipkin", "names \"zipkin\", and there is otlp, none"),
        ("ANSWERABLE_LOG", "a=loud", "is \"a=loud\", and a filter like info"),
        ("ANSWERABLE_LOG_FORMAT", "xml", "is \"xml\", and pretty or json is needed"),
    ] {
        let error = draft(&[(name, text)]).expect_err(name);
        assert!(error.starts_with(&format!("{name} {says}")) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn contradictions_are_refused() {
    let error = draft(&[("ANSWERABLE_DATABASE_DIRECT_URL", "postgres://h/d")]).expect_err("direct alone");
    assert_eq!(error, "ANSWERABLE_DATABASE_DIRECT_URL is set and DATABASE_URL is not");
    let pairs = [("ANSWERABLE_OPERATOR_KEY", PASSPHRASE), ("ANSWERABLE_SECRET_KEY", PASSPHRASE)];
    let error = draft(&pairs.map(|(name, _)| (name, "0123456789abcdef0123456789abcdef"))).expect_err("same");
    assert!(error.contains("are the same") && !error.contains("0123"), "{error}");
    let key = "0123456789abcdef0123456789abcdef";
    let others = format!("{}, {key}", "ab".repeat(32));
    let pairs = [("ANSWERABLE_OPERATOR_KEY", key), ("ANSWERABLE_OTHER_SECRET_KEYS", others.as_str())];
    let error = draft(&pairs).expect_err("same");
    assert!(error.starts_with("ANSWERABLE_OPERATOR_KEY and ANSWERABLE_OTHER_SECRET_KEYS are"), "{error}");
}

#[test]
fn a_server_needs_a_database_and_two_keys() {
    let all = [
        ("DATABASE_URL", "postgres://h/d"),
        ("ANSWERABLE_OPERATOR_KEY", OPERATOR),
        ("ANSWERABLE_SECRET_KEY", PASSPHRASE),
    ];
    draft(&all).expect("valid").complete().expect("complete");
    for missing in 0..all.len() {
        let rest: Vec<_> = (0..all.len()).filter(|i| *i != missing).map(|i| all[i]).collect();
        let error = draft(&rest).expect("valid").complete().expect_err("incomplete");
        assert!(error.0.starts_with(&format!("{} is not set: ", all[missing].0)), "{error}");
    }
}

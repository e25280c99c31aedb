use std::collections::BTreeMap;

use answerable_telemetry::otlp::Protocol;
use secrecy::ExposeSecret as _;

use super::*;

fn of(pairs: &[(&str, &str)]) -> Result<Telemetry, String> {
    let variables: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    telemetry(&|name| variables.get(name).copied(), DEFAULT_BACKLOG).map_err(|error| error.0)
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const OF_METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES: &str = "OTEL_TRACES_EXPORTER";
const METRICS: &str = "OTEL_METRICS_EXPORTER";

#[test]
fn what_is_exported_where() {
    let (spans, metrics) = ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics");
    let set = (ENDPOINT, "http://c:9");
    for (pairs, expected) in [
        (vec![], (None, None)),
        (vec![(TRACES, "otlp")], (Some(spans), None)),
        (vec![(METRICS, "otlp")], (None, Some(metrics))),
        (vec![(TRACES, "OTLP"), (METRICS, "prometheus, otlp")], (Some(spans), Some(metrics))),
        (vec![set], (Some("http://c:9/v1/traces"), Some("http://c:9/v1/metrics"))),
        (vec![set, (TRACES, "none")], (None, Some("http://c:9/v1/metrics"))),
        (vec![set, (METRICS, "prometheus")], (Some("http://c:9/v1/traces"), None)),
        (vec![set, (METRICS, "none"), (TRACES, "none")], (None, None)),
        (vec![set, ("OTEL_SDK_DISABLED", "True")], (None, None)),
        (vec![set, ("OTEL_SDK_DISABLED", "false"), (METRICS, "none")], (Some("http://c:9/v1/traces"), None)),
        (vec![(ENDPOINT, " ")], (None, None)),
        (vec![(OF_TRACES, "http://t:1/in")], (Some("http://t:1/in"), None)),
        (vec![(OF_METRICS, "http://m:1")], (None, Some("http://m:1/"))),
        (
            vec![set, (OF_TRACES, "https://t:1/?k=v")],
            (Some("https://t:1/?k=v"), Some("http://c:9/v1/metrics")),
        ),
        (
            vec![(ENDPOINT, "http://c/base")],
            (Some("http://c/base/v1/traces"), Some("http://c/base/v1/metrics")),
        ),
        (
            vec![(ENDPOINT, "http://c/base/")],
            (Some("http://c/base/v1/traces"), Some("http://c/base/v1/metrics")),
        ),
        (vec![(TRACES, "otlp"), (PROTOCOL, "grpc")], (Some("http://localhost:4317/"), None)),
        (vec![set, (PROTOCOL, "grpc")], (Some("http://c:9/"), Some("http://c:9/"))),
        (
            vec![set, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")],
            (Some("http://c:9/"), Some("http://c:9/v1/metrics")),
        ),
        (
            vec![("OTEL_LOGS_EXPORTER", "console"), ("OTEL_TRACES_SAMPLER", "parentbased_always_on")],
            (None, None),
        ),
    ] {
        let telemetry = of(&pairs).expect("valid");
        let url = |target: &Option<Target>| target.as_ref().map(|target| target.endpoint.to_string());
        let got = (url(&telemetry.spans), url(&telemetry.metrics));
        assert_eq!((got.0.as_deref(), got.1.as_deref()), expected, "{pairs:?}");
        assert_eq!(telemetry.exports_spans(), expected.0.is_some());
    }
}

#[test]
fn nothing_set_gives_the_defaults() {
    let telemetry = of(&[(TRACES, "otlp")]).expect("valid");
    let target = telemetry.spans.expect("spans are exported");
    assert_eq!((target.protocol, target.timeout.as_millis(), target.gzip), (Protocol::Http, 10_000, false));
    assert!(target.headers.is_empty() && target.certificate.is_none());
    assert_eq!((telemetry.spans_every.as_millis(), telemetry.spans_batch), (1000, 512));
    assert_eq!((telemetry.metrics_every.as_millis(), telemetry.backlog), (60_000, 100_000));
    let names: Vec<(&str, &str)> = telemetry.service.attributes().collect();
    assert_eq!(names, [("service.name", "answerable"), ("service.version", env!("CARGO_PKG_VERSION"))]);
}

#[test]
fn a_signals_own_variables_stand_before_those_for_all() {
    let telemetry = of(&[
        (ENDPOINT, "https://c"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hush,x=a%20b"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "m=1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3000"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "GRPC"),
        ("OTEL_BSP_SCHEDULE_DELAY", "250"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ("OTEL_SERVICE_NAME", "desk"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=shop,service.name=other,deployment.environment.name=prod"),
    ])
    .expect("valid");
    let (spans, metrics) = (telemetry.spans.expect("spans"), telemetry.metrics.expect("metrics"));
    let headers = |target: &Target| -> Vec<(String, String)> {
        let pairs = target.headers.iter();
        pairs.map(|(name, value)| (name.to_string(), value.expose_secret().to_owned())).collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers(&spans), [pair("api-key", "hush"), pair("x", "a b")]);
    assert_eq!(headers(&metrics), [pair("m", "1")]);
    assert_eq!((spans.timeout.as_secs(), metrics.timeout.as_secs()), (3, 2));
    assert_eq!((spans.gzip, metrics.gzip), (true, false));
    assert_eq!((spans.protocol, metrics.protocol), (Protocol::Http, Protocol::Grpc));
    assert_eq!((telemetry.spans_every.as_millis(), telemetry.spans_batch), (250, 64));
    assert_eq!(telemetry.metrics_every.as_secs(), 5);
    let attributes: BTreeMap<&str, &str> = telemetry.service.attributes().collect();
    assert_eq!((attributes["service.name"], attributes["team"]), ("desk", "shop"));
    assert!(!format!("{spans:?}").contains("hush"));
}

#[test]
fn what_cant_be_understood_is_said_in_one_line_that_names_it() {
    for (name, text, says) in [
        ("OTEL_SDK_DISABLED", "yes", "is \"yes\", and true or false is needed"),
        (TRACES, "zipkin", "names \"zipkin\", and there is otlp, none"),
        (TRACES, "otlp,none", "names none beside others"),
        (METRICS, "console", "names \"console\", and there is otlp, prometheus, none"),
        (PROTOCOL, "http/json", "is \"http/json\", and http/protobuf or grpc is needed"),
        (ENDPOINT, "hush", "is no URL (relative URL without a base): http://collector:4318"),
        (ENDPOINT, "collector:4317?hush", "is no http or https URL: http://collector:4318"),
        (OF_TRACES, "http://u:hush@c/", "may not have a user or a fragment"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "udp", "is \"udp\""),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hush", "has no \"=\" in its item 1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b d=hush", "has something that is no header in its item 2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=hush%0Ax", "has something that is no header in its item 1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "is \"0\", and a whole number from 1 to 45000 is needed"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1e3", "is \"1e3\""),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "is \"zstd\", and gzip or none is needed"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "is \"/nowhere/ca.pem\": No such file"),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "Cargo.toml",
            "is \"Cargo.toml\", and a file with certificates in PEM",
        ),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1", "is \"-1\", and a whole number from 1 to 3600000 is needed"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0", "is \"0\", and a whole number from 1 to 10000 is needed"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon", "is \"soon\""),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,b", "has no \"=\" in its item 2"),
    ] {
        let mut pairs = vec![(name, text)];
        if name != ENDPOINT {
            pairs.push((ENDPOINT, "http://c:4318"));
        }
        let error = of(&pairs).expect_err(name);
        assert!(error.starts_with(&format!("{name} {says}")), "{error}");
        assert!(!error.contains('\n') && !error.contains("hush"), "{error}");
    }
    let with_grpc = of(&[(PROTOCOL, "grpc"), (ENDPOINT, "http://c:4317/v1/traces")]).expect_err("a path");
    assert!(
        with_grpc.starts_with(&format!("{ENDPOINT} has a path, and with grpc there is none")),
        "{with_grpc}"
    );
}

#[test]
fn what_is_not_exported_is_not_looked_at() {
    of(&[(PROTOCOL, "http/json"), ("OTEL_EXPORTER_OTLP_HEADERS", "no pair")]).expect("nothing is exported");
    of(&[(ENDPOINT, "no URL"), ("OTEL_SDK_DISABLED", "true")]).expect("nothing is exported");
}

#[test]
fn content_stays_unless_it_is_asked_for() {
    assert!(!of(&[]).expect("nothing is set").content);
    for (text, wanted) in [
        ("true", true),
        ("False", false),
        ("SPAN_ONLY", true),
        ("SPAN_AND_EVENT", true),
        ("EVENT_ONLY", false),
        ("no_content", false),
    ] {
        assert_eq!(of(&[(super::CONTENT, text)]).expect(text).content, wanted, "{text}");
    }
    let error = of(&[(super::CONTENT, "yes")]).expect_err("no such word");
    assert!(error.contains("true, false, SPAN_ONLY or NO_CONTENT"), "{error}");
}

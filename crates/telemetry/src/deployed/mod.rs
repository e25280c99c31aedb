//! What `deploy/` asks for is there: a metric or a label that is renamed here fails these tests, not somebody's night.

mod ask;
mod files;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use ask::{Asked, asked};
use files::{expressions, json, parsed, yaml};
use told::told;

/// What every scrape adds.
const OF_THE_SCRAPE: [&str; 2] = ["job", "instance"];
/// What Prometheus itself tells of whom it asks.
const OF_PROMETHEUS: &str = "up";

/// The family of a series' name, and whether it is a part of a histogram.
fn family<'f>(name: &str, families: &'f BTreeMap<String, BTreeSet<String>>) -> Option<&'f BTreeSet<String>> {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    std::iter::once(name).chain(parts).find_map(|name| families.get(name))
}

fn faults(expression: &str, families: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let Asked { metrics, labels } = asked(expression);
    let mut faults = Vec::new();
    let mut known: BTreeSet<&str> = OF_THE_SCRAPE.into();
    for metric in metrics.iter().filter(|metric| *metric != OF_PROMETHEUS) {
        match family(metric, families) {
            Some(labels) => known.extend(labels.iter().map(String::as_str)),
            None => faults.push(format!("there is no metric {metric}: {expression}")),
        }
    }
    let strange = labels.iter().filter(|label| !known.contains(label.as_str()));
    faults.extend(strange.map(|label| format!("there is no label {label}: {expression}")));
    faults
}

#[test]
fn dashboards_and_alerts_ask_for_what_there_is() {
    let families = told();
    assert!(families.len() > 30, "{families:?}");
    let expressions = expressions();
    assert!(expressions.len() > 60, "{}", expressions.len());
    let faults: Vec<String> = expressions.iter().flat_map(|asked| faults(asked, &families)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    // And nothing that is told is for nobody.
    let asked: BTreeSet<String> =
        expressions.iter().flat_map(|expression| asked(expression).metrics).collect();
    let is_asked = |name: &&String| {
        ["", "_bucket", "_sum", "_count"].iter().any(|part| asked.contains(&format!("{name}{part}")))
    };
    let unasked: Vec<&String> = families.keys().filter(|name| !is_asked(name)).collect();
    assert!(unasked.is_empty(), "on no dashboard: {unasked:?}");
}

#[test]
fn a_wrong_name_would_be_noticed() {
    let families = told();
    for wrong in [
        "max(answerable_queue_deepness)",
        r#"sum by (kind) (answerable_queue_depth)"#,
        r#"rate(answerable_runs_total{outcome="failed"}[5m])"#,
    ] {
        assert_eq!(faults(wrong, &families).len(), 1, "{wrong}");
    }
}

#[test]
fn every_file_can_be_read() {
    let count = parsed();
    assert!(count >= 9, "{count} files");
}

#[test]
fn panels_stand_side_by_side_and_name_a_data_source_that_is_set_up() {
    let sources = yaml("deploy/grafana/provisioning/datasources/datasources.yaml");
    let uids: Vec<&Value> =
        sources["datasources"].as_array().into_iter().flatten().map(|one| &one["uid"]).collect();
    for name in ["operations", "agents"] {
        let board = json(&format!("deploy/grafana/dashboards/{name}.json"));
        let panels = board["panels"].as_array().expect("panels");
        let mut places = BTreeSet::new();
        for panel in panels {
            let number = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
            for (x, y) in (0..number("w")).flat_map(|x| (0..number("h")).map(move |y| (x, y))) {
                assert!(number("x") + x < 24, "{} stands over the edge", panel["title"]);
                assert!(
                    places.insert((number("x") + x, number("y") + y)),
                    "{} covers another",
                    panel["title"]
                );
            }
            let targets = panel["targets"].as_array().into_iter().flatten();
            assert!(targets.clone().all(|target| uids.contains(&&target["datasource"]["uid"])), "{panel}");
            assert_eq!(panel["type"] == "row", targets.count() == 0, "{panel}");
        }
        let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "two panels of {name} have one id");
    }
}

#[test]
fn every_alert_is_tested_both_ways() {
    let (rules, tests) = (yaml("deploy/prometheus/alerts.yml"), yaml("deploy/prometheus/alerts_test.yml"));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let alerts = list(&rules["groups"]).iter().flat_map(|group| list(&group["rules"])).collect::<Vec<_>>();
    let cases: Vec<Value> =
        list(&tests["tests"]).iter().flat_map(|test| list(&test["alert_rule_test"])).collect();
    for alert in alerts {
        let name = &alert["alert"];
        let of_it = || cases.iter().filter(|case| case["alertname"] == *name);
        assert!(of_it().any(|case| !list(&case["exp_alerts"]).is_empty()), "nothing shows that {name} fires");
        assert!(
            of_it().any(|case| list(&case["exp_alerts"]).is_empty()),
            "nothing shows that {name} is silent"
        );
    }
}

#[test]
fn the_collectors_pipelines_are_made_of_what_is_defined() {
    let config = yaml("deploy/collector/config.yaml");
    let pipelines = config["service"]["pipelines"].as_object().expect("pipelines");
    let mut used = BTreeSet::new();
    for (kind, pipeline) in pipelines {
        for part in ["receivers", "processors", "exporters"] {
            for name in pipeline[part].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(config[part].get(name).is_some(), "the pipeline {kind} has no {part} {name}");
                used.insert(format!("{part} {name}"));
            }
        }
    }
    for part in ["receivers", "processors", "exporters"] {
        for name in config[part].as_object().into_iter().flat_map(|defined| defined.keys()) {
            assert!(used.contains(&format!("{part} {name}")), "{part} {name} is in no pipeline");
        }
    }
}

#[test]
fn images_are_pinned_and_ports_are_open_on_this_machine_alone() {
    let compose = yaml("docker-compose.yml");
    for (name, service) in compose["services"].as_object().expect("services") {
        let image = service["image"].as_str().expect("an image");
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        let pinned =
            tag.is_some_and(|tag| tag.contains('.') && tag.bytes().any(|byte| byte.is_ascii_digit()));
        assert!(pinned || service.get("build").is_some(), "{name}: {image}");
        for port in service["ports"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

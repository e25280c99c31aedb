//! The forms of a report.

use serde_json::json;

use super::*;

fn play(findings: &[&str]) -> Play {
    let run = RunSummary {
        id: "run_1".to_owned(),
        status: "finished".to_owned(),
        stop_reason: Some("final_answer".to_owned()),
        steps: 2,
        tool_calls: 1,
        tokens: 30,
        cost_microusd: 1170,
    };
    Play {
        findings: findings.iter().map(|what| Finding::trouble(*what)).collect(),
        run: Some(run),
        took: Duration::from_millis(250),
        story: findings.iter().map(|what| format!("0.1s  {what}")).collect(),
    }
}

fn case(name: &str, plays: Vec<Play>, skipped: Option<&str>) -> CaseReport {
    CaseReport {
        name: name.to_owned(),
        file: format!("./evals/{name}.yaml"),
        tags: vec!["cost".to_owned()],
        plays,
        skipped: skipped.map(str::to_owned),
    }
}

/// One of each kind: passed, failed, now and then, and not played.
fn report(pass_rate: f64) -> Report {
    let cases = vec![
        case("good", vec![play(&[])], None),
        case("bad/one", vec![play(&["a < b & \"c\"\u{1b}[1m", "and more"])], None),
        case("shaky", vec![play(&[]), play(&["now and then"]), play(&["now and then"]), play(&[])], None),
        case("far", vec![], Some("out of reach")),
    ];
    Report { cases, pass_rate, took: Duration::from_millis(1250) }
}

#[test]
fn a_verdict_follows_from_the_share_that_passed() {
    let verdicts = |rate: f64| -> Vec<&str> {
        let report = report(rate);
        report.cases.iter().map(|case| case.verdict(rate).word()).collect()
    };
    assert_eq!(verdicts(1.0), ["passed", "failed", "failed", "skipped"]);
    assert_eq!(verdicts(0.5), ["passed", "failed", "passed", "skipped"]);
    assert_eq!(verdicts(0.0), ["passed", "passed", "passed", "skipped"]);
}

#[test]
fn the_table_tells_each_finding_once() {
    let report = report(1.0);
    let table = Table::new(report.cases.iter().map(|case| case.name.as_str()), report.pass_rate);
    let mut lines = vec![table.head()];
    lines.extend(report.cases.iter().flat_map(|case| table.rows(case)).map(|(line, _)| line));
    lines.push(summary(&report).0);
    assert_eq!(
        lines,
        [
            "case     result       steps calls   tokens       cost     time",
            "good     passed           2     1       30  $0.001170   0.25 s",
            "bad/one  failed           2     1       30  $0.001170   0.25 s",
            "    play: a < b & \"c\"\u{fffd}[1m",
            "    play: and more",
            "shaky    failed 2/4       2     1       30  $0.001170   1.00 s",
            "    play: now and then (2×)",
            "far      skipped",
            "    out of reach",
            "1 passed, 2 failed, 1 skipped in 1.25 s",
        ]
    );
}

#[test]
fn json_says_all_of_it() {
    let told = to_json(&report(1.0));
    let totals = json!({"cases": 4, "passed": 1, "failed": 2, "skipped": 1, "plays": 6});
    assert_eq!(
        (&told["passed"], &told["totals"], &told["duration_ms"]),
        (&json!(false), &totals, &json!(1250))
    );
    assert_eq!(told["cases"][2]["pass_rate"], json!(0.5));
    let finding = json!({"place": "play", "expected": "", "got": "and more"});
    assert_eq!(told["cases"][1]["plays"][0]["findings"][1], finding);
    assert_eq!(told["cases"][0]["plays"][0]["run"]["cost_microusd"], json!(1170));
    let far = json!({"name": "far", "file": "./evals/far.yaml", "tags": ["cost"], "verdict": "skipped",
        "skipped": "out of reach", "pass_rate": null, "plays": []});
    assert_eq!(told["cases"][3], far);
    assert_eq!(to_json(&Report { cases: vec![], ..report(1.0) })["passed"], json!(true));
}

#[test]
fn junit_is_well_formed_and_counts_right() {
    let xml = to_junit(&report(1.0));
    let tags = elements(&xml);
    let count = |name: &str| tags.iter().filter(|tag| tag.starts_with(&format!("{name} "))).count();
    assert_eq!((count("testsuite"), count("testcase"), count("failure"), count("skipped/")), (1, 4, 2, 0));
    assert!(tags.contains(&"testsuites name=\"answerable eval\" tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"1\" time=\"1.250\"".to_owned()), "{tags:#?}");
    assert!(xml.contains("<testcase classname=\"evals.bad.one\" name=\"bad/one\" file=\"./evals/bad/one.yaml\" time=\"0.250\">"), "{xml}");
    assert!(xml.contains("<skipped message=\"out of reach\"/>"), "{xml}");
    assert!(xml.contains("<property name=\"passed\" value=\"2\"/>"), "{xml}");
    assert!(xml.contains("a &lt; b &amp; &quot;c&quot;\u{fffd}[1m&#10;play: and more</failure>"), "{xml}");
    assert!(!xml.contains('\u{1b}'));
}

/// The opening tags of a document whose elements are rightly nested.
fn elements(xml: &str) -> Vec<String> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for tag in xml.split('<').skip(2).map(|rest| rest.split('>').next().unwrap_or_default()) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{xml}");
        } else {
            all.push(tag.to_owned());
            if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap_or_default().to_owned());
            }
        }
    }
    assert_eq!(open, Vec::<String>::new(), "{xml}");
    all
}

#[test]
fn secrets_are_masked_wherever_they_stand() {
    let mut report = report(1.0);
    report.cases[1].plays[0].findings[0] = Finding {
        place: "expect.answer.lacks".to_owned(),
        expected: "\"s3cret\" nowhere in it".to_owned(),
        got: "the key is s3cret, s3cret".to_owned(),
    };
    report.cases[1].plays[0].story.push("told s3cret".to_owned());
    report.cases[1].plays[0].mask(&["s3cret"]);
    for told in [to_json(&report).to_string(), to_junit(&report)] {
        assert!(!told.contains("s3cret") && told.contains("the key is ***, ***"), "{told}");
    }
}

//! The report as JUnit XML, as CI systems read it.

use std::fmt::Write;
use std::time::Duration;

use super::{CaseReport, Report, Verdict};

/// The whole report: one suite, a test case for each case. Where a case was played several times it has one verdict,
/// and its rate is a property.
#[must_use]
pub fn to_junit(report: &Report) -> String {
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
        report.cases.len(),
        report.count(Verdict::Failed),
        report.count(Verdict::Skipped),
        seconds(report.took),
    );
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.push_str(&format!("<testsuites name=\"answerable eval\" {counts}>\n"));
    xml.push_str(&format!("  <testsuite name=\"answerable eval\" {counts}>\n"));
    for case in &report.cases {
        xml.push_str(&testcase(case, report.pass_rate));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn testcase(case: &CaseReport, pass_rate: f64) -> String {
    let mut xml = format!(
        "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{}\">\n",
        escaped(&class(&case.file)),
        escaped(&case.name),
        escaped(&case.file),
        seconds(case.took()),
    );
    xml.push_str(&properties(case));
    if let Some(reason) = &case.skipped {
        xml.push_str(&format!("      <skipped message=\"{}\"/>\n", escaped(reason)));
    }
    if case.verdict(pass_rate) == Verdict::Failed {
        let findings: Vec<String> =
            case.plays.iter().flat_map(|play| &play.findings).map(ToString::to_string).collect();
        let first = findings.first().map(String::as_str).unwrap_or_default();
        let all = escaped(&findings.join("\n"));
        xml.push_str(&format!(
            "      <failure type=\"finding\" message=\"{}\">{all}</failure>\n",
            escaped(first)
        ));
    }
    if let Some(play) = case.telling().filter(|play| !play.story.is_empty()) {
        xml.push_str(&format!("      <system-out>{}</system-out>\n", escaped(&play.story.join("\n"))));
    }
    xml.push_str("    </testcase>\n");
    xml
}

/// The schema has a test case's properties before all else.
fn properties(case: &CaseReport) -> String {
    let mut named: Vec<(&str, String)> = case.tags.iter().map(|tag| ("tag", tag.clone())).collect();
    if case.plays.len() > 1 {
        named.push(("plays", case.plays.len().to_string()));
        named.push(("passed", case.passed().to_string()));
    }
    if let Some(run) = case.telling().and_then(|play| play.run.as_ref()) {
        named.push(("run", run.id.clone()));
        named.push(("tokens", run.tokens.to_string()));
        named.push(("cost_microusd", run.cost_microusd.to_string()));
    }
    if named.is_empty() {
        return String::new();
    }
    let mut xml = String::from("      <properties>\n");
    for (name, value) in named {
        // Writing to a text can't fail.
        let _ = writeln!(xml, "        <property name=\"{name}\" value=\"{}\"/>", escaped(&value));
    }
    xml.push_str("      </properties>\n");
    xml
}

/// The folders and the name of a file, as a class's name.
fn class(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let parts = stem.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.collect::<Vec<_>>().join(".")
}

fn seconds(took: Duration) -> String {
    format!("{:.3}", took.as_secs_f64())
}

/// A text as it may stand in XML; what may stand there in no form is replaced.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' => xml.push_str("&#10;"),
            '\t' => xml.push('\t'),
            '\u{fffe}' | '\u{ffff}' => xml.push('\u{fffd}'),
            c if c.is_control() => xml.push('\u{fffd}'),
            c => xml.push(c),
        }
    }
    xml
}

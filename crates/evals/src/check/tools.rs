//! Which tools ran, and which calls were refused.

use super::Findings;
use crate::calls::Call;
use crate::case::{CallExpected, Expect, Range, ToolsExpected};
use crate::shown;

/// Most calls that a finding names.
const MOST_NAMED: usize = 5;

pub(super) fn check(expected: &ToolsExpected, calls: &[Call<'_>], findings: &mut Findings) {
    let ran: Vec<Call<'_>> = calls.iter().copied().filter(|call| call.ran()).collect();
    for (n, wanted) in expected.called.iter().enumerate() {
        called(&format!("expect.tools.called[{n}]"), wanted, &ran, findings);
    }
    for name in &expected.not_called.0 {
        let those: Vec<Call<'_>> = ran.iter().copied().filter(|call| call.name() == name).collect();
        if !those.is_empty() {
            findings.add("expect.tools.not_called", format!("no call of {name}"), told(&those, None));
        }
    }
    let mut names = ran.iter().map(|call| call.name());
    if !expected.order.0.iter().all(|wanted| names.any(|name| name == wanted)) {
        let order = shown::list(expected.order.0.iter().map(String::as_str));
        findings.add("expect.tools.order", order, shown::list(ran.iter().map(|call| call.name())));
    }
    for name in &expected.rejected.0 {
        if !calls.iter().any(|call| call.is_rejected() && call.name() == name) {
            let rejected = calls.iter().filter(|call| call.is_rejected()).map(|call| call.name());
            findings.add("expect.tools.rejected", format!("a call of {name}"), shown::list(rejected));
        }
    }
}

fn called(place: &str, wanted: &CallExpected, ran: &[Call<'_>], findings: &mut Findings) {
    let those: Vec<Call<'_>> = ran.iter().copied().filter(|call| call.name() == wanted.name).collect();
    let fitting = those.iter().filter(|call| fits(wanted, **call)).count();
    let times = wanted.times.unwrap_or(Range::at_least(1));
    if !times.has(fitting.try_into().unwrap_or(u64::MAX)) {
        let which = [
            wanted.input.as_ref().map(|_| "input that fits the schema".to_owned()),
            wanted
                .result
                .as_ref()
                .map(|words| format!("{} in the result", shown::list(words.0.iter().map(String::as_str)))),
            wanted.error_code.as_ref().map(|code| format!("error code {code}")),
        ];
        let which: Vec<String> = which.into_iter().flatten().collect();
        let with = if which.is_empty() { String::new() } else { format!(" with {}", which.join(" and ")) };
        let expected = format!("{times} of {}{with}", wanted.name);
        let all = if those.is_empty() {
            format!("none (called: {})", shown::list(ran.iter().map(|call| call.name())))
        } else {
            told(&those, Some(wanted))
        };
        findings.add(place, expected, format!("{fitting}: {all}"));
    }
}

fn fits(wanted: &CallExpected, call: Call<'_>) -> bool {
    let has_words =
        |words: &crate::case::Words| words.0.iter().all(|word| call.content().contains(word.as_str()));
    wanted.input.as_ref().is_none_or(|schema| schema.misfit(call.input()).is_none())
        && wanted.result.as_ref().is_none_or(has_words)
        && wanted.error_code.as_deref().is_none_or(|code| call.error_code() == Some(code))
}

/// Calls with their inputs, and why they do not fit.
fn told(calls: &[Call<'_>], wanted: Option<&CallExpected>) -> String {
    let mut words: Vec<String> = calls
        .iter()
        .take(MOST_NAMED)
        .map(|call| {
            let schema = wanted.and_then(|wanted| wanted.input.as_ref());
            let misfit = schema.and_then(|schema| schema.misfit(call.input()));
            let why = misfit.map(|misfit| format!(" ({misfit})")).unwrap_or_default();
            let code = call.error_code().map(|code| format!(" {code}")).unwrap_or_default();
            format!("{} {}{why} {}{code}", call.name(), shown::json(call.input()), call.status())
        })
        .collect();
    if calls.len() > MOST_NAMED {
        words.push(format!("and {} more", calls.len() - MOST_NAMED));
    }
    words.join("; ")
}

pub(super) fn check_denied(expect: &Expect, calls: &[Call<'_>], findings: &mut Findings) {
    let denied: Vec<Call<'_>> = calls.iter().copied().filter(|call| call.is_denied()).collect();
    let names = || denied.iter().map(|call| call.name());
    if let Some(wanted) = &expect.denied
        && !names().eq(wanted.0.iter().map(String::as_str))
    {
        findings.add("expect.denied", shown::list(wanted.0.iter().map(String::as_str)), shown::list(names()));
    }
    match expect.no_denied_action {
        Some(true) if !denied.is_empty() => {
            findings.add("expect.no_denied_action", "no denied call", told(&denied, None));
        }
        Some(false) if denied.is_empty() => {
            findings.add("expect.no_denied_action", "a denied call", "none");
        }
        _ => {}
    }
}

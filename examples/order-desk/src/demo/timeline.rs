//! A run's events as lines for a person.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::price::{counted, dollars, excerpt};
use super::screen::{Screen, Tone};

/// The timeline of one run.
pub(super) struct Timeline {
    screen: Screen,
    /// What the lines begin with, so that runs side by side can be told apart.
    label: String,
    begun: Option<DateTime<Utc>>,
}

impl Timeline {
    pub(super) fn new(screen: Screen, label: &str) -> Self {
        Self { screen, label: label.to_owned(), begun: None }
    }

    /// Shows an event; `call` is the tool call that it is about.
    pub(super) fn show(&mut self, event: &Value, call: Option<&Value>) {
        let at = event["at"].as_str().and_then(|at| at.parse::<DateTime<Utc>>().ok());
        let begun = *self.begun.get_or_insert_with(|| at.unwrap_or_else(Utc::now));
        let Some((tone, text)) = describe(event, call) else { return };
        let seconds = at.map_or(0.0, |at| (at - begun).as_seconds_f64());
        let step = event["step"].as_i64().map_or_else(|| " ".repeat(6), |step| format!("step {step}"));
        self.screen.plain(&format!(
            "  {} {} {} {}",
            self.screen.paint(Tone::Title, &self.label),
            self.screen.paint(Tone::Quiet, &format!("{seconds:7.2}s")),
            self.screen.paint(Tone::Quiet, &step),
            self.screen.paint(tone, &text),
        ));
    }

    /// The event stream broke off.
    pub(super) fn disconnected(&self) {
        self.aside("the event stream broke off; connecting again");
    }

    /// The event stream is back.
    pub(super) fn reconnected(&self, after: u64) {
        self.aside(&format!("connected again, going on after event {after}"));
    }

    fn aside(&self, text: &str) {
        let line = format!("  {} {:>15} {text}", self.label, "");
        self.screen.line(Tone::Quiet, &line);
    }
}

fn describe(event: &Value, call: Option<&Value>) -> Option<(Tone, String)> {
    let data = &event["data"];
    let tool = data["tool_name"].as_str().unwrap_or_default();
    let told = match event["type"].as_str()? {
        "context.built" => (Tone::Quiet, context(data)),
        "model.completed" => (Tone::Plain, model(data)),
        "model.failed" => (Tone::Careful, format!("model     failed: {}", word(&data["error"]))),
        "permission.decided" => permission(tool, data, call),
        "tool.started" => (Tone::Quiet, format!("call      {tool} is sent")),
        "tool.completed" => completed(tool, data, call),
        "tool.rejected" => (Tone::Careful, rejected(tool, call)),
        "tool.reconciled" => {
            (Tone::Careful, format!("unclear   {tool}: the shop was asked and says {}", word(&data["state"])))
        }
        "approval.requested" => (Tone::Careful, format!("approval  {tool} is put before a person")),
        "approval.decided" => (Tone::Good, format!("approval  {tool} is decided: {}", decision(data))),
        "run.waiting" => (Tone::Careful, format!("waiting   for {}", word(&data["for"]))),
        "run.resumed" => (Tone::Plain, "resumed".to_owned()),
        "run.finished" => (Tone::Good, format!("finished  {}", word(&data["stop_reason"]))),
        "run.failed" => (Tone::Bad, format!("failed    {}", word(&data["stop_reason"]))),
        "run.cancelled" => (Tone::Bad, "cancelled".to_owned()),
        _ => return None,
    };
    Some(told)
}

fn context(data: &Value) -> String {
    match data["tokens"].as_i64() {
        Some(tokens) => format!("context   about {tokens} tokens"),
        None => "context   built".to_owned(),
    }
}

fn model(data: &Value) -> String {
    let number = |name: &str| data[name].as_i64().unwrap_or_default();
    let cost = data["cost_microusd"].as_i64().map(|cost| format!(", {}", dollars(cost))).unwrap_or_default();
    format!(
        "model     {}, {} tokens in, {} out{cost}, {} ms",
        word(&data["finish_reason"]),
        number("input_tokens"),
        number("output_tokens"),
        number("duration_ms"),
    )
}

fn permission(tool: &str, data: &Value, call: Option<&Value>) -> (Tone, String) {
    let decided = call.map_or(data, |call| &call["decision"]);
    let effect = word(if data["effect"].is_null() { &decided["effect"] } else { &data["effect"] });
    let reason = data["reason"].as_str().or(decided["reason"].as_str()).unwrap_or_default();
    let input = call.map(|call| excerpt(&call["input"].to_string(), 90)).unwrap_or_default();
    let tone = match effect.as_str() {
        "allow" => Tone::Plain,
        "ask" => Tone::Careful,
        _ => Tone::Bad,
    };
    let reason = if effect == "allow" || reason.is_empty() { String::new() } else { format!(" ({reason})") };
    (tone, format!("decision  {effect}{reason}: {tool} {input}"))
}

fn completed(tool: &str, data: &Value, call: Option<&Value>) -> (Tone, String) {
    let result = call.map_or(data, |call| &call["result"]);
    let status = word(if data["status"].is_null() { &result["status"] } else { &data["status"] });
    let tone = if status == "succeeded" { Tone::Plain } else { Tone::Careful };
    let duration = result["duration_ms"].as_i64().map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    let attempts = data["attempt"].as_i64().filter(|attempt| *attempt > 1);
    let attempts = attempts.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
    let content = result["content"].as_str().map(|text| excerpt(text, 90)).unwrap_or_default();
    (tone, format!("result    {tool} {status}{duration}{attempts}: {content}"))
}

fn rejected(tool: &str, call: Option<&Value>) -> String {
    let why = call.map(|call| word(&call["validation"])).unwrap_or_default();
    format!("rejected  {tool} was not sent: {why}; the model is told what is wrong")
}

fn decision(data: &Value) -> String {
    word(if data["decision"].is_null() { &data["status"] } else { &data["decision"] })
}

/// A name as words.
fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('_', " ")
}

/// A run's end in two lines: what it took, and what the customer is told.
pub(super) fn summary(run: &Value) -> (String, String) {
    let used = &run["budgets"]["used"];
    let number = |name: &str| used[name].as_i64().unwrap_or_default();
    let took = format!(
        "{}, {}, {}, {}, {:.1} s of work",
        counted(number("steps"), "step"),
        counted(number("tool_calls"), "call"),
        counted(number("tokens"), "token"),
        dollars(number("cost_microusd")),
        number("elapsed_ms") as f64 / 1000.0,
    );
    (took, excerpt(run["final_answer"].as_str().unwrap_or("(no answer)"), 220))
}

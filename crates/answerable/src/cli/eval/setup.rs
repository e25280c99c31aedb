//! What the server needs to know before a case is played: providers, secrets, and the run itself.

use std::collections::BTreeSet;

use answerable_core::agent::{REDACTED, ToolSpec};
use answerable_evals::case::{Case, Model, Said, Secret, Tools, What};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::args::Options;
use super::place::Guest;
use super::world::World;
use crate::Failure;

/// A case that is about to be played.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'p> {
    pub(super) case: &'p Case,
    pub(super) guest: &'p Guest,
    pub(super) world: &'p World,
    pub(super) options: &'p Options,
    /// Whether the server can call the world.
    pub(super) reach: bool,
}

impl Setup<'_> {
    /// Stores what the run needs and returns the body that starts it.
    pub(super) async fn prepare(&self) -> Result<Value, Failure> {
        for (name, spec) in self.providers() {
            self.put("providers", &name, &spec).await?;
        }
        let agent = self.agent()?;
        for (name, value) in self.secrets(&agent)? {
            self.put("secrets", &name, &json!({"value": value})).await?;
        }
        let case = self.case;
        let mut body = json!({"agent": agent, "input": case.input, "metadata": {"eval": case.name}});
        if let Some(context) = &case.context {
            body["context"] = Value::Object(context.clone());
        }
        if let Some(budgets) = &case.budgets {
            body["budgets"] = Value::Object(budgets.clone());
        }
        if let Some(policy) = &case.policy {
            body["policy"] = Value::Object(policy.clone());
        }
        Ok(body)
    }

    /// Takes away what was stored in a tenant that others use too.
    pub(super) async fn tidy(&self) {
        if self.guest.is_alone() {
            return;
        }
        for (name, _) in self.providers() {
            // What stays is named eval… and asks nobody.
            let _ = self.guest.api.call(Method::DELETE, &["v1", "providers", &name], None).await;
        }
    }

    async fn put(&self, what: &str, name: &str, body: &Value) -> Result<(), Failure> {
        let stored = self.guest.api.call(Method::PUT, &["v1", what, name], Some(body)).await;
        stored.map(drop).map_err(|refusal| Failure::new(format!("{what} {name}: {refusal}")))
    }

    /// Whether the tools are the real ones.
    pub(super) fn is_live(&self) -> bool {
        self.options.live_tools || matches!(self.case.tools, Tools::Live)
    }

    /// Whether the world's models are asked, so that it sees what they are shown.
    pub(super) fn asks_world(&self) -> bool {
        self.reach && self.options.live_model.is_none()
    }

    /// The providers to store, by their names here.
    fn providers(&self) -> Vec<(String, Value)> {
        let (case, own) = (self.case, self.guest.named(self.case.provider()));
        if let Some(live) = &self.options.live_model {
            return live.spec(&case.prices).map(|spec| (own, spec)).into_iter().collect();
        }
        let Model::Replies(replies) = &case.model else { return Vec::new() };
        if !self.reach {
            let script: Vec<Value> = replies.iter().filter_map(|reply| said(&reply.what)).collect();
            return vec![(own, json!({"kind": "scripted", "script": script, "prices": case.prices}))];
        }
        let names: BTreeSet<&str> = [case.provider()].into_iter().chain(case.fallback_providers()).collect();
        names
            .into_iter()
            .map(|name| {
                let url = self.world.model_url(name);
                (
                    self.guest.named(name),
                    json!({"kind": "openai_chat", "base_url": url, "prices": case.prices}),
                )
            })
            .collect()
    }

    /// The agent as it is run: asking the world, or the real ones.
    fn agent(&self) -> Result<Value, Failure> {
        let mut agent = self.case.agent.clone();
        let name = self.case.name.chars().take(100).collect::<String>();
        agent.entry("name").or_insert(name.into());
        agent.entry("instructions").or_insert("Do what you are asked.".into());
        let model = agent.entry("model").or_insert(json!({}));
        self.model(model);
        let tools = agent.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
        for tool in tools.filter_map(Value::as_object_mut) {
            tool.entry("kind").or_insert("http".into());
            if !self.is_live() {
                played(tool);
            }
            if tool.get("kind").is_some_and(|kind| kind == "http") {
                self.tool(tool)?;
            }
        }
        Ok(Value::Object(agent))
    }

    fn model(&self, model: &mut Value) {
        let Some(model) = model.as_object_mut() else { return };
        let own = self.guest.named(self.case.provider());
        model.insert("provider".to_owned(), own.into());
        match &self.options.live_model {
            Some(live) => {
                model.insert("model".to_owned(), live.model.clone().into());
                model.remove("fallbacks");
                if let Some(stored) = live.stored() {
                    model.insert("provider".to_owned(), stored.into());
                }
            }
            None => drop(model.entry("model").or_insert("scripted".into())),
        }
        let fallbacks = model.get_mut("fallbacks").and_then(Value::as_array_mut);
        for provider in fallbacks.into_iter().flatten().filter_map(|one| one.get_mut("provider")) {
            let here = provider.as_str().map(|name| self.guest.named(name));
            if let Some(here) = here {
                *provider = here.into();
            }
        }
    }

    /// A tool of kind http, at the world where it isn't the real one: its headers stay, all else of its address goes.
    fn tool(&self, tool: &mut Map<String, Value>) -> Result<(), Failure> {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.is_live() {
            let has_address = tool.get("http").is_some_and(|http| http.get("url").is_some());
            let missing = || Failure::new(format!("the tool {name} has no http.url to be called at"));
            return if has_address { Ok(()) } else { Err(missing()) };
        }
        if !self.reach {
            tool.insert("kind".to_owned(), "client".into());
            tool.remove("http");
            return Ok(());
        }
        let mut headers = tool.get("http").and_then(|http| http.get("headers")).cloned().unwrap_or(json!({}));
        if let Some(headers) = headers.as_object_mut() {
            // What an export has hidden isn't there to be sent.
            headers.retain(|_, value| value != REDACTED);
        }
        let http = json!({"url": self.world.tool_url(&name), "headers": headers});
        tool.insert("http".to_owned(), http);
        Ok(())
    }

    /// The secrets to store: the case's, and something for each other that the agent names. In a tenant that others use
    /// too nothing is stored.
    fn secrets(&self, agent: &Value) -> Result<Vec<(String, String)>, Failure> {
        if !self.guest.is_alone() {
            return Ok(Vec::new());
        }
        let mut secrets = Vec::new();
        for (name, secret) in &self.case.secrets {
            secrets.push((name.clone(), value(name, secret)?));
        }
        if !self.is_live() {
            let named = named_secrets(&agent.to_string());
            let others = named.into_iter().filter(|name| !self.case.secrets.contains_key(name));
            secrets.extend(others.map(|name| (name.clone(), format!("made-up-for-{name}"))));
        }
        Ok(secrets)
    }
}

/// A tool of a kind that the service runs by itself (files, commands, other agents), as one that the case's world plays:
/// with the name, schema and rules that it would have.
fn played(tool: &mut Map<String, Value>) {
    let own = ["agent", "workspace", "shell"];
    if !tool.get("kind").and_then(Value::as_str).is_some_and(|kind| own.contains(&kind)) {
        return;
    }
    // What makes no sense is left as it is: the server says what is wrong with it.
    let Ok(spec) = serde_json::from_value::<ToolSpec>(Value::Object(tool.clone())) else { return };
    let Ok(Value::Object(filled)) = serde_json::to_value(spec) else { return };
    *tool = filled;
    tool.insert("kind".to_owned(), "http".into());
    // An agent may take days, a request may not.
    if tool.remove("agent").is_some() {
        tool.remove("timeout_ms");
    }
    tool.remove("shell");
}

/// A secret's value.
pub(super) fn value(name: &str, secret: &Secret) -> Result<String, Failure> {
    match secret {
        Secret::Made(value) => Ok(value.clone()),
        Secret::Env(variable) => std::env::var(variable)
            .ok()
            .filter(|value| !value.is_empty())
            .ok_or_else(|| Failure::new(format!("secrets.{name}: {variable} is not set"))),
    }
}

/// The names in `{{secret.NAME}}`.
fn named_secrets(text: &str) -> BTreeSet<String> {
    let after = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    after.filter_map(|(inside, _)| Some(inside.trim().strip_prefix("secret.")?.to_owned())).collect()
}

/// A reply as a provider of kind `scripted` takes it.
fn said(what: &What) -> Option<Value> {
    match what {
        What::Said(Said { text, tool_calls, .. }) if tool_calls.is_empty() => Some(json!({"final": text})),
        What::Said(Said { tool_calls, .. }) => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments.clone() };
                json!({"name": call.name, "arguments": arguments})
            });
            Some(json!({"tool_calls": calls.collect::<Vec<_>>()}))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_own_tools_are_played_under_the_rules_they_would_have() {
        let played = |tool: Value| {
            let Value::Object(mut tool) = tool else { panic!("an object") };
            played(&mut tool);
            Value::Object(tool)
        };
        let command = played(json!({"name": "run_command", "kind": "shell", "timeout_ms": 5000}));
        assert_eq!((&command["kind"], &command["risk"]), (&json!("http"), &json!("high")));
        assert_eq!(command["input_schema"]["required"], json!(["command"]));
        assert!(command.get("shell").is_none() && command["timeout_ms"] == 5000);
        let reader = played(json!({"name": "read_file", "kind": "workspace"}));
        assert_eq!(reader["side_effect"], "none");
        let id = "agt_0192f0c1-2345-7890-abcd-ef0123456789";
        let other = played(
            json!({"name": "ask", "kind": "agent", "timeout_ms": 86_400_000, "agent": {"agent_id": id}}),
        );
        assert!(other.get("agent").is_none() && other.get("timeout_ms").is_none());
        let client = json!({"name": "ask", "kind": "client"});
        assert_eq!(played(client.clone()), client);
    }

    #[test]
    fn secrets_are_found_where_they_are_named() {
        let text =
            r#"{"a": "Bearer {{secret.shop}}", "b": "{{ secret.mail }}{{input.secret}} {{secret.shop}}"}"#;
        assert_eq!(named_secrets(text).into_iter().collect::<Vec<_>>(), ["mail", "shop"]);
    }
}

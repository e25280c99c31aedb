//! Names of tools that providers take: letters, digits, `_` and `-`, 64 at most. Others are replaced on the way out and
//! put back on the way in, so nobody else knows of it.

use std::collections::HashMap;

use answerable_core::model::{ModelReply, ModelRequest};
use answerable_core::reply::legal_name;

/// The names of a request that were replaced, by what stands for them.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, String>);

impl Names {
    /// Makes the names of a request legal.
    pub(crate) fn make_legal(request: &mut ModelRequest) -> Self {
        let mut names = Self::default();
        for tool in &mut request.tools {
            names.replace(&mut tool.name);
        }
        for call in request.messages.iter_mut().flat_map(|message| &mut message.tool_calls) {
            names.replace(&mut call.name);
        }
        names
    }

    /// Whether any name of a request must be replaced.
    pub(crate) fn are_legal(request: &ModelRequest) -> bool {
        let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
        let mut names = request.tools.iter().map(|tool| &tool.name).chain(calls.map(|call| &call.name));
        names.all(|name| legal_name(name) == *name)
    }

    /// Puts the names of a reply's calls back.
    pub(crate) fn put_back(&self, reply: &mut ModelReply) {
        for call in &mut reply.calls {
            if let Some(own) = self.0.get(&call.name) {
                call.name.clone_from(own);
            }
        }
    }

    fn replace(&mut self, name: &mut String) {
        let legal = legal_name(name);
        if legal != *name {
            let own = std::mem::replace(name, legal.clone());
            self.0.insert(legal, own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::{CallId, MessageId};
    use answerable_core::message::{Message, MessageCall, Role};
    use answerable_core::model::{Finish, ReplyCall, ToolOffer};
    use proptest::prelude::*;
    use serde_json::{Map, json};
    use uuid::Uuid;

    fn request(names: &[String]) -> ModelRequest {
        let call = |name: &String| MessageCall {
            id: CallId(Uuid::nil()),
            name: name.clone(),
            arguments: "{}".into(),
        };
        let offer = |name: &String| ToolOffer {
            name: name.clone(),
            description: String::new(),
            input_schema: json!({}),
        };
        let said = Message::text(MessageId(Uuid::nil()), 1, Role::Assistant, "");
        ModelRequest {
            tools: names.iter().map(offer).collect(),
            messages: vec![Message { tool_calls: names.iter().map(call).collect(), ..said }],
            ..ModelRequest::default()
        }
    }

    fn reply(names: impl Iterator<Item = String>) -> ModelReply {
        let call = |name| ReplyCall { id: None, name, arguments: String::new() };
        ModelReply {
            text: String::new(),
            calls: names.map(call).collect(),
            finish: Finish::Stop,
            finish_reason: None,
            usage: None,
            extra: Map::new(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn names_go_out_legal_and_distinct_and_come_back(names in prop::collection::hash_set(".{0,90}|[a-z.]{60,70}", 0..9)) {
            let own: Vec<String> = names.into_iter().collect();
            let mut request = request(&own);
            prop_assert_eq!(Names::are_legal(&request), own.iter().all(|name| legal_name(name) == *name));
            let names = Names::make_legal(&mut request);
            prop_assert!(Names::are_legal(&request));
            let out: std::collections::HashSet<_> = request.tools.iter().map(|tool| tool.name.clone()).collect();
            prop_assert_eq!(out.len(), own.len());
            let mut reply = reply(request.tools.iter().map(|tool| tool.name.clone()));
            names.put_back(&mut reply);
            prop_assert_eq!(reply.calls.iter().map(|call| call.name.clone()).collect::<Vec<_>>(), own);
            prop_assert!(request.messages[0].tool_calls.iter().zip(&request.tools).all(|(call, tool)| call.name == tool.name));
        }
    }
}

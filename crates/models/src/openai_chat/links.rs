//! Reasoning that names the call that it led to. The runtime's ids stand for the model's in what goes back, so a name of a call
//! is kept as its place, `{"call": 0}`, and becomes the id that stands there.

use std::collections::HashMap;

use answerable_core::model::ReplyCall;
use serde_json::{Map, Value, json};

/// Puts places where blocks of `fields` name calls.
pub(super) fn loosen(fields: &mut Map<String, Value>, calls: &[ReplyCall]) {
    // The first call of a name stands last here, and so is the one that counts.
    let named = calls.iter().enumerate().rev();
    let places: HashMap<&str, usize> =
        named.filter_map(|(place, call)| Some((call.id.as_deref()?, place))).collect();
    for id in ids(fields) {
        if let Some(place) = id.as_str().and_then(|id| places.get(id)) {
            *id = json!({"call": place});
        }
    }
}

/// Puts ids where blocks of `fields` have places. False: there is no such call.
pub(super) fn tighten(fields: &mut Map<String, Value>, calls: &[String]) -> bool {
    ids(fields).all(|id| {
        let Some(place) = id["call"].as_u64() else { return true };
        let call = usize::try_from(place).ok().and_then(|place| calls.get(place));
        call.is_some_and(|call| {
            *id = call.as_str().into();
            true
        })
    })
}

/// The ids of all blocks.
fn ids(fields: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let blocks = fields.iter_mut().filter(|(name, _)| *name != "tool_calls");
    blocks
        .filter_map(|(_, value)| value.as_array_mut())
        .flatten()
        .filter_map(|block| block.as_object_mut()?.get_mut("id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls_become_places_and_ids_again() {
        let call = |id: Option<&str>| ReplyCall {
            id: id.map(str::to_owned),
            name: "look".into(),
            arguments: "{}".into(),
        };
        let block = |id: Value| json!({"type": "reasoning.encrypted", "id": id, "data": "c2Vh"});
        let details = json!({"reasoning_details": [block(json!("tool_1")), block(json!("rs_1")), block(Value::Null), {"type": "x"}],
            "tool_calls": [{"id": "tool_1"}], "reasoning": "tool_1"});
        let mut fields = details.as_object().expect("fields").clone();
        loosen(&mut fields, &[call(None), call(Some("tool_1"))]);
        assert_eq!(fields["reasoning_details"][0]["id"], json!({"call": 1}));
        assert_eq!(
            (&fields["reasoning_details"][1], &fields["tool_calls"]),
            (&block(json!("rs_1")), &details["tool_calls"])
        );
        let ours = ["tc_a".to_owned(), "tc_b".to_owned()];
        assert!(!tighten(&mut fields.clone(), &ours[..1]));
        assert!(tighten(&mut fields, &ours));
        assert_eq!(fields["reasoning_details"][0]["id"], "tc_b");
        assert_eq!(fields["reasoning_details"][1]["id"], "rs_1");
    }
}

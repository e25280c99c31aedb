//! System text, with what the answer must be like where the wire has no other way to say so.

use serde_json::Value;

/// The instructions, and the schema of the answer.
pub(crate) fn with_schema(system: &str, schema: &Value) -> String {
    let gap = if system.is_empty() { "" } else { "\n\n" };
    format!(
        "{system}{gap}Give your final answer as JSON alone, without any other text and without a code fence. It must match \
         this JSON Schema: {schema}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_schema_follows_the_instructions() {
        let schema = json!({"type": "object"});
        assert!(with_schema("Be brief.", &schema).starts_with("Be brief.\n\nGive your final answer"));
        assert!(
            with_schema("", &schema).starts_with("Give your")
                && with_schema("", &schema).contains(r#"{"type":"object"}"#)
        );
    }
}

//! `openapi.yaml` itself: whole, consistent, and kind to its readers.

use std::collections::HashSet;

use answerable_testkit::Document;
use serde_json::Value;

/// Calls `look` for every object in a value, with its JSON Pointer.
fn each_object(value: &Value, pointer: &str, look: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            look(pointer, value);
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                each_object(inner, &format!("{pointer}/{name}"), look);
            }
        }
        Value::Array(items) => {
            for (n, inner) in items.iter().enumerate() {
                each_object(inner, &format!("{pointer}/{n}"), look);
            }
        }
        _ => {}
    }
}

fn operations() -> Vec<(String, String, &'static Value)> {
    let document = Document::load();
    let found = document.operations().into_iter().map(|(method, path)| {
        let operation = document.operation(&method, &path).expect("a listed operation is there");
        (method, path, operation)
    });
    found.collect()
}

#[test]
fn it_is_openapi_3_1() {
    let root = Document::load().root();
    assert_eq!(root["openapi"], "3.1.0");
    assert!(operations().len() >= 70, "{} operations", operations().len());
}

#[test]
fn every_reference_leads_somewhere() {
    let root = Document::load().root();
    let mut broken = Vec::new();
    each_object(root, "", &mut |at, object| {
        if let Some(target) = object.get("$ref").and_then(Value::as_str)
            && target.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).is_none()
        {
            broken.push(format!("{at}: {target}"));
        }
    });
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_component_is_used() {
    let root = Document::load().root();
    let mut used = HashSet::new();
    each_object(root, "", &mut |_, object| {
        if let Some(target) = object.get("$ref").and_then(Value::as_str) {
            used.insert(target.to_owned());
        }
    });
    // The data of an event that only streams have; no schema of the stream could name it.
    used.insert("#/components/schemas/ModelDelta".to_owned());
    for kind in ["schemas", "parameters", "headers", "responses"] {
        for name in root["components"][kind].as_object().expect("components of each kind").keys() {
            assert!(used.contains(&format!("#/components/{kind}/{name}")), "{kind}/{name} is not used");
        }
    }
}

#[test]
fn every_operation_is_named_once_and_explained() {
    let mut ids = HashSet::new();
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{method} {path}: operationId {id:?}");
        for part in ["summary", "description"] {
            let text = operation[part].as_str().unwrap_or_default();
            assert!(!text.trim().is_empty(), "{method} {path} has no {part}");
        }
        let tags = operation["tags"].as_array().map_or(0, Vec::len);
        assert!(tags > 0, "{method} {path} has no tag");
    }
}

#[test]
fn every_tag_is_explained() {
    let root = Document::load().root();
    let listed = root["tags"].as_array().expect("tags");
    let known: HashSet<&str> = listed.iter().filter_map(|tag| tag["name"].as_str()).collect();
    for (method, path, operation) in operations() {
        for tag in operation["tags"].as_array().expect("tags of an operation") {
            assert!(known.contains(tag.as_str().unwrap_or_default()), "{method} {path}: {tag}");
        }
    }
}

#[test]
fn every_parameter_of_a_path_is_described() {
    let root = Document::load().root();
    for (path, item) in root["paths"].as_object().expect("paths") {
        let wanted = path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'));
        let given: HashSet<&str> = item["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parameter| match parameter["$ref"].as_str() {
                Some(target) => root.pointer(&target[1..]).expect("a parameter"),
                None => parameter,
            })
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        assert_eq!(given, wanted.collect(), "{path}");
    }
}

#[test]
fn every_error_is_a_problem() {
    let root = Document::load().root();
    for (method, path, operation) in operations() {
        let responses = operation["responses"].as_object().expect("responses");
        assert!(responses.contains_key("500"), "{method} {path} has no 500");
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let target = response["$ref"].as_str().unwrap_or_default();
            let response =
                target.strip_prefix('#').and_then(|at| root.pointer(at)).expect("a shared response");
            let content = response["content"].as_object().expect("content");
            let kinds: Vec<&String> = content.keys().collect();
            // Whoever comes with a decision link may be a person with a browser.
            let expected: &[&str] = match target {
                "#/components/responses/LinkRefused" => &["application/problem+json", "text/html"],
                _ => &["application/problem+json"],
            };
            assert_eq!(kinds, expected, "{method} {path} {status}");
        }
    }
}

#[test]
fn whoever_needs_a_key_hears_so() {
    for (method, path, operation) in operations() {
        let security = operation["security"].as_array().expect("each operation says who may call it");
        let responses = operation["responses"].as_object().expect("responses");
        if security.is_empty() {
            assert!(!path.starts_with("/v1/"), "{method} {path} is open");
            continue;
        }
        assert!(responses.contains_key("401"), "{method} {path} has no 401");
        for either in security {
            let scopes = either.get("tenantKey").and_then(Value::as_array);
            assert!(scopes.is_none_or(|scopes| scopes.len() == 1), "{method} {path} names no scope");
        }
        assert_eq!(
            path.starts_with("/v1/tenants"),
            security[0].get("operatorKey").is_some(),
            "{method} {path}"
        );
    }
}

#[test]
fn bodies_are_closed() {
    let root = Document::load().root();
    for (method, path, operation) in operations() {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(target) = schema["$ref"].as_str() else {
            // A body that is no JSON has no schema: the bytes of a file.
            assert!(schema.is_null(), "{method} {path} has a body of no named schema");
            continue;
        };
        let schema = root.pointer(&target[1..]).expect("a schema");
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{method} {path}: {target}");
        let answers = operation["responses"].as_object().expect("responses");
        for status in ["400", "413", "415", "422"] {
            assert!(answers.contains_key(status), "{method} {path} has no {status}");
        }
    }
}

#[test]
fn every_post_takes_an_idempotency_key() {
    for (method, path, operation) in operations().into_iter().filter(|(method, ..)| method == "POST") {
        let parameters = operation["parameters"].as_array().expect("parameters");
        let is_it = |p: &Value| p["$ref"] == "#/components/parameters/IdempotencyKey";
        assert!(parameters.iter().any(is_it), "{method} {path}");
    }
}

#[test]
fn every_list_is_paged() {
    for (method, path, operation) in operations() {
        let schema = operation["responses"]["200"]["$ref"].as_str().unwrap_or_default();
        // These are one page by nature.
        let is_whole =
            path.ends_with("/usage") || path.ends_with("/quotas") || path == "/v1/mcp_servers/{name}/tools";
        if schema.ends_with("List") && !is_whole {
            let parameters = operation["parameters"].to_string();
            assert!(parameters.contains("parameters/Limit"), "{method} {path}");
            assert!(parameters.contains("parameters/Cursor"), "{method} {path}");
        }
    }
}

//! Documents of different styles, and the tools that they become.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use url::Url;

use super::{Imported, Wanted, import};
use crate::cli::tools::read::parse;

const PETS: &str = include_str!("samples/pets.yaml");
const SHOP: &str = include_str!("samples/shop.json");

fn imported(text: &str, wanted: &Wanted) -> Imported {
    import(&parse(text).expect("a document"), wanted).expect("tools")
}

fn at(base_url: &str) -> Wanted {
    Wanted { base_url: Some(base_url.into()), ..Wanted::default() }
}

fn by_name(imported: &Imported) -> BTreeMap<&str, &Value> {
    imported.tools.iter().map(|tool| (tool["name"].as_str().expect("a name"), tool)).collect()
}

#[test]
fn methods_say_what_a_tool_may_do() {
    let pets = imported(PETS, &Wanted::default());
    let facts: Vec<Value> = pets
        .tools
        .iter()
        .map(|tool| {
            json!([
                tool["name"],
                tool["http"]["method"],
                tool["side_effect"],
                tool["risk"],
                tool["idempotent"]
            ])
        })
        .collect();
    let wanted = json!([
        ["listPets", "GET", "none", "low", false],
        ["createPet", "POST", "write", "medium", false],
        ["pets_get_one", "GET", "none", "low", false],
        ["put_pets_petId", "PUT", "write", "medium", true],
        ["deletePet", "DELETE", "write", "high", true],
        // It takes an idempotency key.
        ["walkPet", "POST", "write", "medium", true],
        ["elsewhere", "GET", "none", "low", false],
    ]);
    let by = |list: Vec<Value>| -> BTreeMap<String, Value> {
        list.into_iter().map(|fact| (fact[0].to_string(), fact)).collect()
    };
    assert_eq!(by(facts), by(wanted.as_array().expect("a list").clone()));
    assert_eq!(pets.title, "Pets 1.2.0");
}

#[test]
fn values_have_their_places() {
    let pets = imported(PETS, &Wanted::default());
    let tools = by_name(&pets);
    let v1 = "https://eu.pets.example/v1";
    for (name, http) in [
        (
            "listPets",
            json!({"url": format!("{v1}/pets"), "method": "GET", "headers": {"authorization": "Bearer {{secret.token}}"},
            "query": {"limit": "{{input.limit}}", "tag[]": "{{input.tag}}"}}),
        ),
        (
            "createPet",
            json!({"url": format!("{v1}/pets"), "method": "POST", "headers": {"authorization": "Basic {{secret.basic}}"}}),
        ),
        (
            "pets_get_one",
            json!({"url": format!("{v1}/pets/{{{{input.petId}}}}"), "method": "GET", "query": {"verbose": "{{input.verbose}}"}}),
        ),
        (
            "put_pets_petId",
            json!({"url": format!("{v1}/pets/{{{{input.petId}}}}"), "method": "PUT",
            "headers": {"cookie": "session={{secret.cookie}}", "x-api-key": "{{secret.key}}"},
            "query": {"verbose": "{{input.verbose}}"}, "body": "{{input.body}}"}),
        ),
        (
            "walkPet",
            json!({"url": format!("{v1}/pets/{{{{input.petId}}}}/walk"), "method": "POST",
            "headers": {"authorization": "Bearer {{secret.token}}"}, "query": {"minutes": "{{input.minutes}}"},
            "body": "{{input.body}}"}),
        ),
    ] {
        assert_eq!(tools[name]["http"], http, "{name}");
    }
    assert_eq!(tools["deletePet"]["http"]["headers"], json!({"authorization": "Bearer {{secret.oauth}}"}));
    assert_eq!(tools["listPets"]["description"], "List pets\n\nThose that are for sale.");
    assert_eq!(tools["deletePet"]["description"], "DELETE /pets/{petId}\n\n(deprecated)");
    let secrets: Vec<&str> = pets.secrets.keys().map(String::as_str).collect();
    assert_eq!(secrets, ["basic", "cookie", "key", "oauth", "token"]);
    let there: Vec<&str> = pets.secrets.values().flatten().map(String::as_str).collect();
    assert_eq!(there, ["https://eu.pets.example"; 5]);
}

#[test]
fn inputs_are_json_schemas() {
    let pets = imported(PETS, &Wanted::default());
    let tools = by_name(&pets);
    let pet = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "kind": {"type": ["string", "null"], "enum": ["cat", "dog", null]},
            "mother": {"$ref": "#/$defs/Pet"},
            "owner": {"anyOf": [{"allOf": [{"$ref": "#/$defs/Owner"}]}, {"type": "null"}]},
        },
    });
    let owner = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let mut flat = pet.clone();
    flat["$defs"] = json!({"Pet": pet, "Owner": owner});
    assert_eq!(tools["createPet"]["input_schema"], flat, "a body alone is the input");
    let put = &tools["put_pets_petId"]["input_schema"];
    assert_eq!(put["required"], json!(["petId", "body"]));
    assert_eq!(
        put["properties"]["petId"],
        json!({"type": "integer", "format": "int64", "description": "Which pet."})
    );
    assert_eq!(put["properties"]["body"], json!({"$ref": "#/$defs/Pet", "description": "The new pet."}));
    let walk = &tools["walkPet"]["input_schema"];
    assert_eq!(walk["properties"]["minutes"], json!({"type": "integer", "exclusiveMinimum": 0}));
    assert_eq!(walk["required"].as_array().map(Vec::len), Some(2));
    let list = &tools["listPets"]["input_schema"];
    assert_eq!(list["properties"]["limit"], json!({"type": "integer", "maximum": 100}));
    assert_eq!((&list["required"], &list["additionalProperties"]), (&json!([]), &json!(false)));
}

#[test]
fn what_can_not_be_said_is_said() {
    let pets = imported(PETS, &Wanted::default());
    let told = pets.told.join("\n");
    for line in [
        "listPets: can't say the query parameter near: an object can't be put there",
        "listPets: can't say the header parameter X-Trace: a header that may be absent can't be said",
        "createPet: the secret basic is user:password in base64",
        "deletePet: the secret oauth is an access token, which is not renewed",
        "deletePet: the pattern \"^(?=p)p\\\\d+$\" is left to the far side",
        "elsewhere: can't say the query parameter q: it refers to other.yaml#/Query, and other documents are not read",
        "left out HEAD /pets/{petId}: tools have no such method",
        "left out POST /pets/{petId}/photo: its body is no JSON but application/octet-stream",
        "left out GET /search: query stands in the address, where no secret may",
        "left out GET /boxes/{ids}: the path parameter ids: a list can't be put there as it is to be written",
        "left out POST /elsewhere: it refers to other.yaml#/Query, and other documents are not read",
    ] {
        assert!(told.lines().any(|known| known == line), "{line}\n--\n{told}");
    }
    assert_eq!((pets.told.len(), pets.left_out), (11, 5), "{told}");
}

/// A parameter of one operation, and whether the tool has it.
#[test]
fn parameters_that_have_no_place() {
    let (text, list) = (json!({"type": "string"}), json!({"type": "array", "items": {"type": "string"}}));
    let maybe_object = json!({"anyOf": [{"type": "string"}, {"type": "object"}]});
    for (place, more, schema, has) in [
        ("path", json!({}), &text, true),
        ("path", json!({"style": "simple"}), &text, true),
        ("path", json!({"style": "label"}), &text, false),
        ("path", json!({"style": "matrix"}), &text, false),
        ("path", json!({}), &maybe_object, false),
        ("path", json!({}), &json!({"oneOf": [text, list]}), false),
        ("query", json!({"style": "form"}), &text, true),
        ("query", json!({}), &list, true),
        ("query", json!({}), &json!({"oneOf": [text, list]}), true),
        ("query", json!({"explode": false}), &list, false),
        ("query", json!({"style": "pipeDelimited"}), &list, false),
        ("query", json!({"style": "deepObject"}), &text, false),
        ("query", json!({}), &maybe_object, false),
        ("query", json!({}), &json!({"type": "array", "items": maybe_object}), false),
        ("query", json!({}), &json!({"$ref": "#/components/schemas/Either"}), false),
        ("header", json!({"style": "simple"}), &text, true),
        ("header", json!({}), &list, false),
    ] {
        let mut parameter = more.clone();
        for (field, value) in [
            ("name", json!("p")),
            ("in", json!(place)),
            ("required", json!(true)),
            ("schema", schema.clone()),
        ] {
            parameter[field] = value;
        }
        let path = if place == "path" { "/a/{p}" } else { "/a" };
        let document = json!({"openapi": "3.1.0", "paths": {path: {"get": {"parameters": [parameter]}}},
            "components": {"schemas": {"Either": maybe_object}}});
        let made = import(&document, &at("https://h.example")).expect("a document");
        assert_eq!(
            (made.tools.len(), made.told.is_empty()),
            (usize::from(has), has),
            "{place} {more} {schema}: {:?}",
            made.told
        );
    }
}

#[test]
fn schemas_that_refer_to_themselves() {
    let shop = imported(SHOP, &at("https://shop.example/api/"));
    let tools = by_name(&shop);
    let category = &tools["createOrder_2"]["input_schema"]["$defs"]["Category"];
    assert_eq!(category["properties"]["children"]["items"], json!({"$ref": "#/$defs/Category"}));
    let order = &tools["createOrder_2"];
    assert_eq!(
        order["input_schema"]["properties"]["lines"]["items"],
        json!({"$ref": "#/$defs/Order_20Line"})
    );
    assert_eq!(order["input_schema"]["properties"]["category"]["description"], "What it is of.");
    assert_eq!(order["http"]["headers"], json!({"content-type": "application/vnd.shop+json"}));
    // Another had the name before, its own server doesn't count, and a body that may be left out is a field.
    let put = &tools["createOrder"];
    assert_eq!(
        put["http"],
        json!({"url": "https://shop.example/api/categories", "method": "PUT", "body": "{{input.body}}"})
    );
    assert_eq!(put["input_schema"]["required"], json!([]));
    let list = &tools["change_list"];
    assert_eq!(list["http"]["url"], "https://shop.example/api/lists/{{input.body}}");
    assert_eq!(list["http"]["body"], "{{input.body_2}}");
    assert_eq!(list["input_schema"]["required"], json!(["body", "body_2"]));
    assert_eq!(list["input_schema"]["properties"]["body"], json!({"$ref": "#/$defs/id"}));
    assert_eq!(tools["get_orders"]["http"]["query"], json!({"filter.state": "{{input.filter_state}}"}));
    assert_eq!(shop.left_out, 2, "{:?}", shop.told);
}

#[test]
fn servers() {
    let document = |server: &str| {
        format!(
            r#"{{"openapi": "3.0.0", "paths": {{"/a": {{"get": {{}}}}}}, "servers": [{{"url": "{server}"}}]}}"#
        )
    };
    let source = Url::parse("https://docs.example/v3/openapi.json").ok();
    let url = |server: &str, base: Option<&str>, source: Option<Url>| {
        let wanted = Wanted { base_url: base.map(str::to_owned), source, only: Vec::new() };
        let made = imported(&document(server), &wanted);
        made.tools.first().map(|tool| tool["http"]["url"].as_str().expect("an address").to_owned())
    };
    for (server, base, source, wanted) in [
        ("https://h.example/v1/", None, None, Some("https://h.example/v1/a")),
        ("/v2", None, source.clone(), Some("https://docs.example/v2/a")),
        ("v2", None, source.clone(), Some("https://docs.example/v3/v2/a")),
        ("/v2", None, None, None),
        ("/v2", Some("http://127.0.0.1:9000"), source.clone(), Some("http://127.0.0.1:9000/a")),
        ("https://{host}/", None, None, None),
        ("ftp://h.example/", None, None, None),
        ("https://user:pass@h.example/", None, None, None),
        ("https://h.example/?x=1", None, None, None),
    ] {
        assert_eq!(url(server, base, source).as_deref(), wanted, "{server} {base:?}");
    }
}

#[test]
fn only_what_is_asked_for() {
    let some = imported(PETS, &Wanted { only: vec!["*Pet".into(), "listPets".into()], ..Wanted::default() });
    let names: Vec<&str> = by_name(&some).into_keys().collect();
    assert_eq!(names, ["createPet", "deletePet", "listPets", "walkPet"]);
}

#[test]
fn other_documents_are_refused() {
    for (text, word) in [
        (r#"{"swagger": "2.0", "paths": {}}"#, "2.0"),
        (r#"{"openapi": "4.0.0", "paths": {}}"#, "4.0.0"),
        (r#"{"paths": {}}"#, "no version"),
        (r#"{"openapi": "3.1.0"}"#, "no paths"),
        ("[]", "no version"),
        ("just text", "no version"),
    ] {
        let refused = import(&parse(text).expect("YAML"), &Wanted::default()).expect_err(text);
        assert!(refused.contains(word), "{text}: {refused}");
    }
}

/// Documents with mistakes in them, which come to an end and to tools that are accepted, or to words.
#[test]
fn odd_documents_come_to_an_end() {
    let whole = parse(PETS).expect("a document");
    let mut tried = 0;
    for pointer in pointers(&whole, String::new()) {
        for odd in [
            Value::Null,
            json!(7),
            json!("#"),
            json!([]),
            json!({}),
            json!({"$ref": "#"}),
            json!({"$ref": "#/paths"}),
        ] {
            let mut changed = whole.clone();
            *changed.pointer_mut(&pointer).expect("it is there") = odd;
            // Each tool that comes of it was judged as the server does.
            let _ = import(&changed, &Wanted::default());
            tried += 1;
        }
    }
    assert!(tried > 1000, "{tried}");
}

fn pointers(value: &Value, at: String) -> Vec<String> {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(name, member)| (name.replace('~', "~0").replace('/', "~1"), member)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    let below = members.into_iter().flat_map(|(name, member)| pointers(member, format!("{at}/{name}")));
    std::iter::once(at.clone()).chain(below).collect()
}

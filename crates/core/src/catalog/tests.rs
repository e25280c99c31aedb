use super::taking::{MAX_BYTES, MAX_DESCRIPTION, MAX_LEFT_OUT};
use super::*;
use crate::agent::{MAX_TOOLS, McpTool, Risk, SideEffect};
use crate::text;
use serde_json::json;

fn agent(value: Value) -> AgentSpec {
    let mut agent = json!({"name": "a", "model": {"provider": "p", "model": "m"}});
    for (name, value) in value.as_object().into_iter().flatten() {
        agent[name] = value.clone();
    }
    crate::field_error::read(agent).expect("an agent")
}

fn tool(name: &str, input_schema: Value) -> Listed {
    Listed { name: name.into(), title: None, description: "does it".into(), input_schema, annotations: None }
}

fn bare(name: &str) -> Listed {
    tool(name, Value::Null)
}

fn taken(agent: &AgentSpec, tools: Vec<Listed>) -> Catalog {
    catalog(agent, &[("srv".into(), tools)])
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn left_out(catalog: &Catalog) -> Vec<&str> {
    catalog.left_out.iter().map(|left| left.tool.as_str()).collect()
}

#[test]
fn globs_let_tools_in_and_the_first_entry_that_does_counts() {
    let agent = agent(json!({"mcp": [
        {"server": "srv", "allow": ["read_*"], "defaults": {"side_effect": "none", "timeout_ms": 5000}},
        {"server": "srv", "allow": ["*"], "defaults": {"risk": "high"}},
        {"server": "other", "allow": ["x"]},
        {"server": "closed"},
    ]}));
    let lists = [
        ("srv".to_owned(), vec![bare("read_a"), bare("write")]),
        ("other".to_owned(), vec![bare("x"), bare("y")]),
        ("closed".to_owned(), vec![bare("z")]),
        ("nobodys".to_owned(), vec![bare("x")]),
    ];
    let found = catalog(&agent, &lists);
    assert_eq!(names(&found), ["srv__read_a", "srv__write", "other__x"]);
    let (read, write) = (&found.tools[0], &found.tools[1]);
    assert_eq!((read.risk, read.side_effect, read.timeout_ms()), (Risk::Low, SideEffect::None, 5000));
    assert_eq!((write.risk, write.side_effect), (Risk::High, SideEffect::Write));
    assert_eq!(read.mcp, Some(McpTool { server: "srv".into(), tool: "read_a".into() }));
    assert!(found.left_out.is_empty());
    assert_eq!(servers(&agent), [("srv", true), ("other", true), ("closed", true)]);
}

#[test]
fn one_odd_tool_spoils_no_other() {
    let agent = agent(
        json!({"mcp": [{"server": "srv", "allow": ["*"]}], "tools": [{"name": "srv__mine", "kind": "client"}]}),
    );
    let odd = [
        tool("number", json!(5)),
        tool("list", json!([1, 2])),
        tool("typed", json!({"type": 5, "properties": "none"})),
        tool("abroad", json!({"properties": {"a": {"$ref": "https://schemas.example/a"}}})),
        tool("text", json!({"type": "string"})),
        tool("never", json!(false)),
        bare(""),
        bare("bell\u{7}"),
        bare(&"x".repeat(300)),
        bare("mine"),
        bare("read"),
    ];
    let fine = [
        bare("read"),
        tool("nullable", json!({"type": ["object", "null"]})),
        tool("any", json!(true)),
        tool("inside", json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}})),
        bare("a/b"),
        bare("Docker scan"),
        bare("日程"),
    ];
    let found = taken(&agent, fine.into_iter().chain(odd).collect());
    assert_eq!(
        names(&found),
        [
            "srv__read",
            "srv__nullable",
            "srv__any",
            "srv__inside",
            "srv__a/b",
            "srv__Docker scan",
            "srv__日程"
        ]
    );
    assert_eq!(found.left_out.len(), 11, "{:?}", left_out(&found));
    assert!(found.left_out.iter().all(|left| !left.reason.is_empty() && !left.tool.contains('\0')));
    assert_eq!(found.tools[0].input_schema, json!({"type": "object"}));
    let equipped = with_tools(&agent, &found.tools);
    assert!(crate::registry::Registry::compile(equipped).is_ok(), "what is taken compiles");
}

#[test]
fn there_are_no_more_tools_than_providers_take() {
    let agent = agent(
        json!({"mcp": [{"server": "srv", "allow": ["*"]}], "tools": [{"name": "own", "kind": "client"}]}),
    );
    let many: Vec<Listed> = (0..300).map(|n| bare(&format!("t{n}"))).collect();
    let found = taken(&agent, many);
    assert_eq!(found.tools.len(), MAX_TOOLS - 1);
    assert_eq!(found.left_out.len(), MAX_LEFT_OUT, "the rest is not named one by one");
    let large = json!({"description": "x".repeat(200 * 1024)});
    let found = taken(&agent, (0..20).map(|n| tool(&format!("t{n}"), large.clone())).collect());
    let bytes: usize = found.tools.iter().map(|tool| tool.input_schema.to_string().len()).sum();
    assert!(bytes <= MAX_BYTES && !found.left_out.is_empty());
}

#[test]
fn what_has_no_place_any_more_is_not_looked_into() {
    let agent = agent(json!({"mcp": [{"server": "srv", "allow": ["*"]}]}));
    let spoilt = |name: &str, bytes: usize| tool(name, json!({"type": 5, "description": "x".repeat(bytes)}));
    let mut many: Vec<Listed> = (0..MAX_TOOLS).map(|n| bare(&format!("t{n}"))).collect();
    many.extend([spoilt("late", 0), bare("t0")]);
    let found = taken(&agent, many);
    assert_eq!((found.tools.len(), left_out(&found)), (MAX_TOOLS, vec!["srv__late", "srv__t0"]));
    assert!(found.left_out.iter().all(|left| left.reason.contains("at most")), "{:?}", found.left_out);
    let mut large: Vec<Listed> =
        (0..10).map(|n| tool(&format!("t{n}"), json!({"description": "x".repeat(200 * 1024)}))).collect();
    large.extend([spoilt("large", 100 * 1024), spoilt("t0", 0), spoilt("small", 0)]);
    let why: Vec<String> = taken(&agent, large).left_out.into_iter().map(|left| left.reason).collect();
    assert!(
        why[0].contains("larger than") && why[1].contains("another tool") && why[2].contains("/type"),
        "{why:?}"
    );
}

#[test]
fn a_list_of_schemas_that_cant_be_used_is_not_read_to_its_end() {
    let agent =
        agent(json!({"mcp": [{"server": "bad", "allow": ["*"]}, {"server": "good", "allow": ["*"]}]}));
    let spoilt = json!({"type": 5, "description": "x".repeat(100 * 1024)});
    let mut bad: Vec<Listed> = (0..30).map(|n| tool(&format!("t{n}"), spoilt.clone())).collect();
    bad.insert(0, bare("first"));
    bad.push(tool("last", json!({"description": "y".repeat(100 * 1024)})));
    let found = catalog(&agent, &[("bad".into(), bad), ("good".into(), vec![bare("read")])]);
    assert_eq!(names(&found), ["bad__first", "good__read"], "it spoils no other server's");
    let why: Vec<_> = found.left_out.iter().map(|left| left.reason.as_str()).collect();
    assert!(why[0].contains("can't be used: /type"), "{}", why[0]);
    assert!(why[30].contains("too many tools of its server"), "{}", why[30]);
    // Small ones may take long as well, so they are counted.
    let mut bad: Vec<Listed> = (0..200).map(|n| tool(&format!("t{n}"), json!({"type": 5}))).collect();
    bad.push(bare("last"));
    let found = catalog(&agent, &[("bad".into(), bad), ("good".into(), vec![bare("read")])]);
    assert_eq!(names(&found), ["good__read"]);
}

#[test]
fn long_names_are_cut_before_they_are_compared() {
    let agent = agent(json!({"mcp": [{"server": "srv", "allow": ["*a*a*a*a*b", "t*"]}]}));
    let long = [bare(&"a".repeat(5_000_000)), bare(&format!("t{}", "é".repeat(5_000_000))), bare("tea")];
    let found = catalog(&agent, &[("srv".into(), long.to_vec())]);
    assert_eq!(names(&found), ["srv__tea"]);
    assert_eq!(found.left_out.len(), 1, "what no pattern lets in is not there");
    assert_eq!(text::chars(&found.left_out[0].tool), 256);
}

#[test]
fn patterns_are_compared_with_so_many_names_only() {
    let glob = |n: usize| format!("{n}{}", "x".repeat(190));
    let entry =
        |n: usize| json!({"server": "srv", "allow": (0..200).map(|i| glob(n * 200 + i)).collect::<Vec<_>>()});
    let mut entries: Vec<Value> = (0..31).map(entry).collect();
    entries.push(json!({"server": "few", "allow": ["*"]}));
    let agent = agent(json!({"mcp": entries}));
    let many: Vec<Listed> = (0..2_000).map(|n| bare(&format!("{n:0>200}"))).collect();
    let found = catalog(&agent, &[("few".into(), vec![bare("read")]), ("srv".into(), many)]);
    assert_eq!(names(&found), ["few__read"]);
    assert!(found.left_out[0].reason.contains("patterns"), "{:?}", found.left_out[0]);
}

#[test]
fn descriptions_are_cut_and_mended() {
    let agent = agent(json!({"mcp": [{"server": "srv", "allow": ["*"]}]}));
    let long = Listed { description: "é\0".repeat(MAX_DESCRIPTION), ..bare("long") };
    let titled = Listed { description: " ".into(), title: Some("Reads".into()), ..bare("titled") };
    let found = taken(&agent, vec![long, titled]);
    assert_eq!(text::chars(&found.tools[0].description), MAX_DESCRIPTION + 1);
    assert!(!found.tools[0].description.contains('\0'));
    assert_eq!(found.tools[1].description, "Reads");
}

#[test]
fn what_a_server_says_of_a_tool_is_told_and_changes_nothing() {
    let agent = agent(
        json!({"mcp": [{"server": "srv", "allow": ["*"], "defaults": {"risk": "high", "side_effect": "write"}}]}),
    );
    let says = |name: &str, annotations: Value| Listed { annotations: Some(annotations), ..bare(name) };
    let found = taken(
        &agent,
        vec![
            says("reads", json!({"readOnlyHint": true, "destructiveHint": false})),
            says("same", json!({"readOnlyHint": false})),
            says("mute", json!({"title": "x"})),
        ],
    );
    assert!(found.tools.iter().all(|tool| (tool.risk, tool.side_effect) == (Risk::High, SideEffect::Write)));
    let reads = Nature { risk: Risk::Low, side_effect: SideEffect::None, idempotent: false };
    assert_eq!(found.suggested, [Suggested { tool: "srv__reads".into(), nature: reads }]);
    for (annotations, risk, idempotent) in [
        (json!({"destructiveHint": false}), Risk::Medium, false),
        (json!({"destructiveHint": true, "idempotentHint": true}), Risk::High, true),
        (json!({"idempotentHint": false}), Risk::High, false),
    ] {
        let wanted = Nature { risk, side_effect: SideEffect::Write, idempotent };
        assert_eq!(nature(&annotations), Some(wanted), "{annotations}");
    }
    for mute in [json!({}), json!(null), json!("readOnlyHint"), json!({"readOnlyHint": "yes"})] {
        assert_eq!(nature(&mute), None, "{mute}");
    }
}

#[test]
fn another_agent_takes_what_was_listed_as_it_says_itself() {
    let old = agent(json!({"mcp": [{"server": "srv", "allow": ["*"]}]}));
    let listed = taken(&old, vec![bare("read"), bare("write")]).tools;
    assert_eq!(retaken(&old, &listed), listed);
    let new = agent(json!({"mcp": [{"server": "srv", "allow": ["read"], "defaults": {"risk": "critical"}}]}));
    let again = retaken(&new, &listed);
    assert_eq!(
        again.iter().map(|tool| (tool.name.as_str(), tool.risk)).collect::<Vec<_>>(),
        [("srv__read", Risk::Critical)]
    );
    assert!(retaken(&agent(json!({})), &listed).is_empty());
    assert_ne!(hash(&listed), hash(&again));
}

//! Lists of tools: pages, odd entries, changes, and servers that are away.

use std::time::Duration;

use answerable_ports::{McpFault, McpPlace, ToolSource};
use answerable_testkit::McpAnswer;
use serde_json::{Value, json};

use super::world::{World, names, tenant};

#[tokio::test]
async fn all_pages_are_read() {
    let world = World::start().await;
    let files = world.files();
    files.offers((0..5).map(|n| json!({"name": format!("t{n}"), "title": "T", "description": "d", "annotations": {"readOnlyHint": true}})));
    files.pages_of(2);
    let tools = world.list().await.expect("a list");
    assert_eq!(names(&tools), ["t0", "t1", "t2", "t3", "t4"]);
    assert_eq!((tools[0].title.as_deref(), tools[0].description.as_str()), (Some("T"), "d"));
    assert_eq!(tools[0].annotations, Some(json!({"readOnlyHint": true})));
    assert_eq!(files.requests("tools/list").len(), 3);
}

#[tokio::test]
async fn one_odd_tool_spoils_no_other() {
    let world = World::start().await;
    let files = world.files();
    files.offers([
        json!({"name": "read"}),
        json!({"name": "odd", "inputSchema": {"type": 5, "properties": "none"}}),
        json!({"name": "odder", "inputSchema": [1, 2]}),
        json!({"name": "bare", "inputSchema": null}),
        json!({"description": "no name"}),
        json!("no tool"),
        json!({"name": "recursive", "inputSchema": {"properties": {"n": {"$ref": "#/properties/n"}}}}),
        json!({"name": "read", "description": "twice"}),
        json!({"name": "a/b c.d ö", "outputSchema": 7, "icons": "none", "annotations": [1]}),
    ]);
    let tools = world.list().await.expect("a list");
    assert_eq!(names(&tools), ["read", "odd", "odder", "bare", "recursive", "read", "a/b c.d ö"]);
    assert_eq!((&tools[2].input_schema, &tools[3].input_schema), (&json!([1, 2]), &Value::Null));
    assert_eq!(tools[6].annotations, None);
}

#[tokio::test]
async fn a_list_has_an_end() {
    let world = World::start().await;
    let files = world.files();
    let round = McpAnswer::result(&json!({"tools": [], "nextCursor": "again"}));
    let many: Vec<Value> = (0..6000).map(|n| json!({"name": format!("t{n}")})).collect();
    let page = |next: &str| McpAnswer::result(&json!({"tools": many, "nextCursor": next}));
    let half = |next: &str| {
        McpAnswer::result(
            &json!({"tools": [{"name": next, "description": "x".repeat(5 << 20)}], "nextCursor": next}),
        )
    };
    let cases = [
        (vec![round], "no end"),
        (vec![page("a"), page("b")], "longer"),
        (vec![McpAnswer::raw("application/json", vec![b' '; 17 << 20])], "longer"),
        (vec![McpAnswer::result(&json!({"tools": vec![json!(1); 1_000_000]}))], "longer"),
        (
            vec![McpAnswer::result(&json!({"tools": [{"name": "a", "description": "x".repeat(9 << 20)}]}))],
            "longer",
        ),
        (vec![half("a"), half("b")], "longer"),
        (vec![McpAnswer::result(&json!({"tools": "none"}))], "no such form"),
        (vec![McpAnswer::result(&json!({}))], "no such form"),
        (vec![McpAnswer::error(-32601, "no tools here")], "no tools here"),
    ];
    for (answers, says) in cases {
        let name = uuid::Uuid::new_v4().to_string();
        world.set(1, &name, &world.far.url(&name));
        world.far.server(&name).script("tools/list", answers);
        let fault = world.tools.list(tenant(1), &name).await.expect_err(says);
        assert!(matches!(&fault, McpFault::Refused(why) if why.contains(says)), "{says}: {fault:?}");
        assert!(world.far.server(&name).requests("tools/list").len() <= 2, "{says}");
    }
    let thousands: Vec<Value> = (0..9000).map(|n| json!({"name": format!("t{n}")})).collect();
    files.offers(thousands);
    files.pages_of(1000);
    assert_eq!(world.list().await.expect("a long list").len(), 9000);
    files.script("tools/list", [McpAnswer::result(&json!({"tools": [{"name": "a"}], "nextCursor": ""}))]);
    assert_eq!(world.list().await.expect("an empty cursor is none").len(), 1);
}

#[tokio::test]
async fn a_server_that_is_away_is_asked_again() {
    let world = World::start().await;
    let files = world.files();
    files.offers([json!({"name": "read"})]);
    for answer in [
        McpAnswer::status(500, "Traceback"),
        McpAnswer::status(503, "").header("retry-after", "0"),
        McpAnswer::status(429, ""),
        McpAnswer::cut(),
        McpAnswer::error(-32603, "internal"),
        McpAnswer::forgetting(),
    ] {
        let (name, before) = (uuid::Uuid::new_v4().to_string(), format!("{answer:?}"));
        world.set(1, &name, &world.far.url(&name));
        let server = world.far.server(&name);
        server.offers([json!({"name": "read"})]);
        server.script("tools/list", [answer, McpAnswer::usual()]);
        let tools = world.tools.list(tenant(1), &name).await.expect(&before);
        assert_eq!(names(&tools), ["read"], "{before}");
    }
}

#[tokio::test]
async fn a_server_that_stays_away_or_refuses_is_told_apart() {
    let world = World::start().await;
    let place = |url: &str| McpPlace::Url { url: url.into(), headers: Default::default() };
    world.put(1, "gone", place("http://127.0.0.1:9/mcp"), 5000, "1");
    world.put(1, "meta", place("http://169.254.169.254/mcp"), 5000, "1");
    world.put(1, "file", place("file:///etc/passwd"), 5000, "1");
    world.put(1, "stdio", McpPlace::Stdio { command: "nothing".into() }, 5000, "1");
    for (name, is_away) in [
        ("gone", true),
        ("away", true),
        ("broken", false),
        ("nowhere", false),
        ("meta", false),
        ("file", false),
        ("stdio", false),
    ] {
        let fault = world.tools.list(tenant(1), name).await.expect_err(name);
        assert_eq!(matches!(fault, McpFault::Away(_)), is_away, "{name}: {fault}");
        let said = fault.to_string();
        assert!(
            !said.contains("169.254") && !said.contains("127.0.0.1") && !said.contains("the database"),
            "{said}"
        );
    }
    assert!(
        matches!(world.tools.list(tenant(2), "files").await, Err(McpFault::Refused(_))),
        "another tenant's"
    );
}

#[tokio::test]
async fn a_list_takes_no_longer_than_the_server_may() {
    let world = World::start().await;
    let place = McpPlace::Url { url: world.far.url("slow"), headers: Default::default() };
    world.put(1, "slow", place, 300, "1");
    world.far.server("slow").script("tools/list", [McpAnswer::usual().held()]);
    let begun = std::time::Instant::now();
    let fault = world.tools.list(tenant(1), "slow").await;
    assert!(matches!(&fault, Err(McpFault::Away(why)) if why.contains("300 ms")), "{fault:?}");
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn changes_are_heard_in_answers_and_on_the_servers_own_stream() {
    let world = World::start().await;
    let files = world.files();
    files.with_stream();
    files.offers([json!({"name": "unlock"})]);
    files.script(
        "unlock",
        [McpAnswer::text("unlocked")
            .changing_tools([json!({"name": "unlock"}), json!({"name": "treasure"})])],
    );
    assert_eq!((names(&world.list().await.expect("a list")), world.changes()), (vec!["unlock"], 0));
    world.call("unlock", json!({})).await;
    assert_eq!(world.changes(), 1);
    assert_eq!(names(&world.list().await.expect("a list")), ["unlock", "treasure"]);
    assert_eq!(world.changes(), 1);
    files.reached("GET", 1).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let heard = async {
        while world.changes() < 2 {
            files.tell(changed.clone());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), heard).await.expect("it is heard");
    assert_eq!(world.tools.changes(tenant(2), "files"), 0, "another tenant's");
    assert_eq!(files.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_that_come_back_in_a_list_are_masked() {
    let world = World::start().await;
    let files = world.files();
    files.offers([json!({"name": "a", "description": "use sk-tenant-1-canary", "inputSchema": {"default": "Bearer sk-tenant-1-canary"}})]);
    let tools = format!("{:?}", world.list().await.expect("a list"));
    assert!(!tools.contains("canary") && tools.contains("use ***"), "{tools}");
    files.script("tools/list", [McpAnswer::status(403, "sk-tenant-1-canary may not")]);
    let fault = world.list().await.expect_err("refused").to_string();
    assert!(!fault.contains("canary") && fault.contains("***"), "{fault}");
}

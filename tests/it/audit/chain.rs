//! `answerable audit`: a chain that holds, and one that somebody has been at.

use std::process::Output;

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::entries;
use crate::harness::World;

/// What the command said, and whether it was content.
async fn audit(world: &World, arguments: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } = ended(world, arguments).await;
    (status.success(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

async fn status_of(world: &World, arguments: &[&str]) -> Option<i32> {
    ended(world, &[&["verify"], arguments].concat()).await.status.code()
}

async fn ended(world: &World, arguments: &[&str]) -> Output {
    let url = world.server.url().to_owned();
    let mut all = vec!["audit"];
    all.extend(arguments);
    if !arguments.contains(&"--api-key") {
        all.extend(["--api-key", world.client.key().expect("a key")]);
    }
    all.extend(["--url", &url]);
    world.server.command(&all).await
}

async fn busy(world: &World) -> Vec<Value> {
    for name in ["a", "b", "c", "d"] {
        world.client.put(&format!("/v1/secrets/{name}"), &json!({"value": "x"})).await.ok();
    }
    entries(&world.client).await
}

fn head(entry: &Value) -> String {
    format!("{}:{}", entry["seq"], entry["hash"].as_str().expect("a hash"))
}

#[tokio::test]
async fn a_record_is_verified_at_the_server_and_in_a_file() {
    let world = World::shared().await;
    let all = busy(&world).await;
    let newest = head(all.last().expect("an entry"));
    let (holds, told) = audit(&world, &["verify"]).await;
    assert!(holds && told.contains(&format!("{} entries hold", all.len())), "{told}");
    assert!(told.contains(&format!("\nhead {newest}\n")), "{told}");
    assert!(audit(&world, &["verify", "--head", &head(&all[2])]).await.0);
    let operator = ["verify", "--tenant", &world.tenant, "--api-key", world.server.operator_key()];
    let (holds, as_operator) = audit(&world, &operator).await;
    assert!(holds && as_operator == told, "{as_operator}");
    let (holds, told) =
        audit(&world, &["verify", "--operator", "--api-key", world.server.operator_key()]).await;
    assert!(holds && told.contains("entr"), "the operator's own: {told}");
    let (done, lines) = audit(&world, &["export"]).await;
    let exported: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(done && exported == all);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let name = file.to_str().expect("a name");
    std::fs::write(&file, &lines).expect("written");
    let (holds, told) = audit(&world, &["verify", "--file", name, "--head", &newest]).await;
    assert!(holds && told.contains(&format!("head {newest}")), "{told}");
    let (_, part) = audit(&world, &["export", "--after", "3"]).await;
    std::fs::write(&file, &part).expect("written");
    let (holds, told) = audit(&world, &["verify", "--file", name, "--head", &head(&all[2])]).await;
    assert!(holds && told.contains("it begins with entry 4"), "{told}");
    let (holds, told) = audit(&world, &["verify", "--file", name, "--part", "--tenant", &world.tenant]).await;
    assert!(holds && told.contains("it begins with entry 4"), "{told}");
    let stranger = "ten_00000000-0000-7000-8000-000000000000";
    for (more, status) in [
        (&["--file", name][..], 2),
        (&["--file", "/nowhere/audit.jsonl"], 2),
        (&["--file", name, "--part", "--tenant", stranger], 1),
        (&["--tenant", stranger, "--api-key", world.server.operator_key()], 2),
        (&["--api-key", "none"], 2),
    ] {
        assert_eq!(status_of(&world, more).await, Some(status), "{more:?}");
    }
    std::fs::write(&file, lines.replacen("\"secret.put\"", "\"secret.delete\"", 1)).expect("written");
    let (holds, told) = audit(&world, &["verify", "--file", name]).await;
    let first = all.iter().find(|entry| entry["action"] == "secret.put").expect("an entry");
    let wanted = format!(
        "entry {} ({}) is not what its hash is of",
        first["seq"],
        first["id"].as_str().expect("an id")
    );
    assert!(!holds && told.contains(&wanted), "{told}");
}

#[tokio::test]
async fn a_record_that_was_tampered_with_is_told_from_one_that_holds() {
    let world = World::alone().await;
    let all = busy(&world).await;
    let (third, last) = (head(&all[2]), head(all.last().expect("an entry")));
    let mut owner = PgConnection::connect(world.database_url()).await.expect("a connection");
    let triggers = "UPDATE audit SET action = 'key.revoke' WHERE seq = 3";
    assert!(sqlx::query(triggers).execute(&mut owner).await.is_err(), "triggers keep even the owner off");
    sqlx::query("SET session_replication_role = replica").execute(&mut owner).await.expect("no triggers");
    // Cut off at the end: the rest holds, and only a head that was noted tells.
    let cut = "DELETE FROM audit WHERE tenant_id <> '00000000-0000-0000-0000-000000000000' AND seq > 4";
    sqlx::query(cut).execute(&mut owner).await.expect("cut");
    assert!(audit(&world, &["verify", "--head", &third]).await.0);
    let (holds, told) = audit(&world, &["verify", "--head", &last]).await;
    assert!(!holds && told.contains("ends at entry 4") && told.contains("the end is missing"), "{told}");
    let change = "UPDATE audit SET target = '{\"type\": \"secret\", \"id\": \"z\"}' WHERE seq = 3
                  AND tenant_id <> '00000000-0000-0000-0000-000000000000'";
    sqlx::query(change).execute(&mut owner).await.expect("changed");
    let (holds, told) = audit(&world, &["verify"]).await;
    assert!(!holds && told.contains("entry 3 (aud_") && told.contains("not what its hash is of"), "{told}");
    let drop = "DELETE FROM audit WHERE seq = 2 AND tenant_id <> '00000000-0000-0000-0000-000000000000'";
    sqlx::query(drop).execute(&mut owner).await.expect("dropped");
    let (holds, told) = audit(&world, &["verify"]).await;
    assert!(!holds && told.contains("stands where entry 2 must stand"), "{told}");
}

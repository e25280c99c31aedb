//! Attempts to get out of a sandbox, to use more than it may, and to outlive it.

mod attempts;
mod elsewhere;
mod endings;
mod hidden;
mod resources;
mod world;

use answerable_sandbox::Order;
use world::{World, folder, limits, run, sandbox};

#[tokio::test]
async fn no_attempt_gets_out() {
    let Some(sandbox) = sandbox() else { return };
    let mut world = World::new();
    let attempts = attempts::all();
    assert!(attempts.len() >= 90, "{}", attempts.len());
    // Without the program that it is made with, an attempt would fail for want of that.
    for program in attempts::PROGRAMS {
        assert!(world.has_program(program), "{program} is not here, and attempts are made with it");
    }
    let mut wrong = Vec::new();
    for attempt in &attempts {
        let ended = run(&sandbox, &world.fill(&attempt.script), limits(20)).await;
        let said = ended.output.text();
        let name = attempt.name;
        if said.contains("OUT") || !said.contains("TRIED") {
            wrong.push(format!("{name}: {:?}: {said}", ended.how));
        }
        if attempt.works_outside
            && world.has(&attempt.script)
            && !world.outside(&attempt.script).contains("OUT")
        {
            wrong.push(format!("{name}: shows nothing, for it doesn't work outside either"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), attempts.len(), wrong.join("\n"));
    assert!(world.is_whole(), "the world was touched");
}

#[tokio::test]
async fn the_hosts_network_is_there_where_it_is_asked_for_and_its_nameless_sockets_are_not() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let script = |name: &str| {
        let attempt = attempts::all().into_iter().find(|attempt| attempt.name == name);
        world.fill(&attempt.expect("an attempt").script)
    };
    for (name, is_there) in [("TCP to the host", true), ("a socket of the host without a path", false)] {
        let order = Order { command: script(name), network: true, limits: limits(10) };
        let ended = sandbox.run(folder(&sandbox).await, order).await.expect("it runs");
        assert_eq!(ended.output.text().contains("OUT"), is_there, "{name}: {}", ended.output.text());
    }
}

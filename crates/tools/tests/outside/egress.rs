//! The guarded client reaches what it may and nothing else.

use answerable_testkit::{ScriptedTools, ToolAnswer};
use answerable_tools::{Allow, Fault, GuardedClient, Refused};
use reqwest::Method;

fn client(allow: &str) -> GuardedClient {
    GuardedClient::new(Allow::parse(allow).expect("a list")).expect("a client")
}

fn by_name(url: &str) -> String {
    url.replace("127.0.0.1", "localhost")
}

async fn call(client: &GuardedClient, url: &str) -> Result<u16, Fault> {
    let request = client.request(Method::GET, url).map_err(Fault::Refused)?;
    request.send().await.map(|response| response.status().as_u16()).map_err(|error| Fault::from(&error))
}

#[tokio::test]
async fn loopback_is_reached_only_where_it_is_allowed() {
    let world = ScriptedTools::start().await.expect("a server");
    let url = world.url("look");
    let refused = Err(Fault::Refused(Refused::Private));
    let closed = client("");
    assert_eq!(call(&closed, &url).await, refused);
    assert_eq!(call(&closed, &by_name(&url)).await, refused, "judged by what the name resolves to");
    assert_eq!(call(&client("10.0.0.0/8,shop.internal"), &by_name(&url)).await, refused);
    assert!(world.requests("look").is_empty());
    assert_eq!(call(&client("127.0.0.0/8"), &url).await, Ok(200));
    assert_eq!(call(&client("127.0.0.0/8"), &by_name(&url)).await, Ok(200));
    assert_eq!(call(&client("localhost"), &by_name(&url)).await, Ok(200));
    assert_eq!(call(&client("localhost"), &url).await, refused, "a name allows no literal");
    assert_eq!(world.requests("look").len(), 3);
}

#[tokio::test]
async fn the_address_of_nowhere_is_not_loopback() {
    let world = ScriptedTools::start().await.expect("a server");
    let allowed = client("127.0.0.0/8");
    for host in ["0.0.0.0", "0", "0x0", "[::ffff:0.0.0.0]", "[::1]"] {
        let url = world.url("look").replace("127.0.0.1", host);
        assert_eq!(call(&allowed, &url).await, Err(Fault::Refused(Refused::Private)), "{url}");
    }
    assert!(world.requests("look").is_empty());
}

#[tokio::test]
async fn redirects_are_answers() {
    let world = ScriptedTools::start().await.expect("a server");
    world.script("look", [ToolAnswer::status(302).header("location", &world.url("trap"))]);
    assert_eq!(call(&client("127.0.0.0/8"), &world.url("look")).await, Ok(302));
    assert!(world.requests("trap").is_empty());
}

#[tokio::test]
async fn nobody_there_and_a_cut_line_are_told_apart() {
    let world = ScriptedTools::start().await.expect("a server");
    world.script("look", [ToolAnswer::cut()]);
    let allowed = client("127.0.0.0/8");
    assert_eq!(call(&allowed, &world.url("look")).await, Err(Fault::Cut));
    assert_eq!(call(&allowed, "http://127.0.0.1:9/").await, Err(Fault::NotConnected));
    let no_tls = world.url("look").replace("http:", "https:");
    assert_eq!(call(&allowed, &no_tls).await, Err(Fault::NotConnected), "no handshake, no request");
    assert_eq!(call(&allowed, "http://no-such-host.invalid/").await, Err(Fault::NotConnected));
}

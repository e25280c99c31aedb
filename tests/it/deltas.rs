//! The model's words on event streams: at every server, in order, whose they are, and never at the run's cost.

use std::collections::BTreeMap;
use std::time::Duration;

use answerable_testkit::ModelReply;
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use crate::harness::{EventStream, Fits, Run, Server, StreamEvent, With, World};

/// The words of each attempt: whatever was said, each word once and in order.
fn words(events: &[StreamEvent]) -> BTreeMap<(u64, u64), String> {
    let mut attempts: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut newest = (0, 0);
    for delta in events.iter().filter(|event| event.kind == "model.delta").map(|event| &event.data) {
        let number = |name: &str| delta[name].as_u64().expect("a number");
        let attempt = (number("step"), number("attempt"));
        assert!(attempt >= newest, "{attempt:?} after {newest:?}");
        newest = attempt;
        let said = attempts.entry(attempt).or_default();
        assert_eq!(number("offset"), said.chars().count() as u64, "after {said:?}");
        said.push_str(delta["text"].as_str().expect("text"));
    }
    attempts
}

async fn until(stream: &mut EventStream, kind: &str) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &StreamEvent| event.kind != kind) {
        events.push(stream.next().await.expect("one more event"));
    }
    events
}

fn kinds(events: &[StreamEvent]) -> Vec<&str> {
    let from = events.iter().position(|event| event.kind == "model.started").expect("a start");
    let mut kinds: Vec<&str> = events[from..].iter().map(|event| event.kind.as_str()).collect();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn words_reach_the_streams_of_every_server_while_they_are_said() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    let answer = "Grüß Gott, große Welt 🌍!";
    world.model.script("m", [ModelReply::text(answer).held_after(2)]);
    let run = world.start(&world.agent(&[])).await;
    let mut streams = vec![run.stream(None).await];
    streams.push(run.through(&world.client.at(other.url())).stream(None).await);
    let mut events = Vec::new();
    for stream in &mut streams {
        // The reply is held after its first half: this came while it was said.
        events.push(until(stream, "model.delta").await);
    }
    world.model.release();
    for (mut events, stream) in events.into_iter().zip(streams) {
        events.extend(stream.rest().await);
        assert_eq!(words(&events), BTreeMap::from([((1, 1), answer.to_owned())]));
        let wanted = ["model.started", "model.delta", "model.completed", "run.finished"];
        assert_eq!(kinds(&events), wanted);
    }
    run.ended().await.fits(&json!({"final_answer": answer}));
}

#[tokio::test]
async fn after_a_failed_attempt_the_words_begin_anew() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("look", json!({}))]).and_text("Let me look.").held_after(2),
            ModelReply::text("It is blue").cut_after(400).held_after(1),
            ModelReply::text("It is green").held_after(2),
        ],
    );
    let run = world.start(&world.agent(&[world.read("look")])).await;
    let mut streams = [run.stream(None).await, run.through(&world.client.at(other.url())).stream(None).await];
    let mut events =
        [until(&mut streams[0], "model.delta").await, until(&mut streams[1], "model.delta").await];
    world.model.release();
    for (events, stream) in events.iter_mut().zip(&mut streams) {
        events.extend(until(stream, "model.completed").await);
        events.extend(until(stream, "model.delta").await);
    }
    world.model.release();
    for (events, stream) in events.iter_mut().zip(&mut streams) {
        events.extend(until(stream, "model.failed").await);
        events.extend(until(stream, "model.delta").await);
    }
    world.model.release();
    for (mut events, stream) in events.into_iter().zip(streams) {
        events.extend(stream.rest().await);
        let said = words(&events);
        assert_eq!(said[&(1, 1)], "Let me look.");
        assert_eq!(said[&(2, 2)], "It is green");
        let cut = &said[&(2, 1)];
        assert!("It is blue".starts_with(cut) && !cut.is_empty(), "{cut}");
    }
    run.ended().await.fits(&json!({"final_answer": "It is green"}));
}

#[tokio::test]
async fn who_takes_a_run_over_says_its_words_anew() {
    let world = World::alone().await;
    world.model.script(
        "m",
        [ModelReply::text("Cut off by death").held_after(2), ModelReply::text("Here again").held_after(2)],
    );
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    let others = [world.server.beside().await, world.server.beside().await];
    let mut streams = Vec::new();
    for other in &others {
        let mut stream = run.through(&world.client.at(other.url())).stream(None).await;
        let seen = until(&mut stream, "model.delta").await;
        assert_eq!(seen.last().map(|event| &event.data["text"]), Some(&json!("Cut off ")));
        streams.push(stream);
    }
    world.server.kill();
    for stream in &mut streams {
        let seen = until(stream, "model.delta").await;
        let anew = json!({"text": "Here ", "step": 1, "attempt": 1, "offset": 0});
        assert_eq!(seen.last().map(|event| &event.data), Some(&anew));
    }
    world.model.release();
    for stream in streams {
        let rest = stream.rest().await;
        assert_eq!(rest[0].data, json!({"text": "again", "step": 1, "attempt": 1, "offset": 5}));
    }
    run.through(&world.client.at(others[0].url())).ended().await.fits(&json!({"final_answer": "Here again"}));
}

#[tokio::test]
async fn a_stream_that_begins_within_a_reply_begins_with_its_first_word() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Hello world").held_after(2)]);
    let run = world.start(&world.agent(&[])).await;
    let mut first = run.stream(None).await;
    let seen = until(&mut first, "model.delta").await;
    let place = seen.iter().filter_map(|event| event.id).next_back();
    drop(first);
    // Left and resumed: the stored events go on, the words are told once more.
    let mut resumed = run.stream(place).await;
    let mut events = until(&mut resumed, "model.delta").await;
    world.model.release();
    events.extend(resumed.rest().await);
    assert_eq!(words(&events), BTreeMap::from([((1, 1), "Hello world".to_owned())]));
    run.ended().await;
}

#[tokio::test]
async fn a_stream_that_begins_after_a_reply_hears_nothing_of_it() {
    let world = World::shared().await;
    let calls = ModelReply::calls([("pay", json!({}))]).and_text("I pay.").held_after(2);
    world.model.script("m", [calls, ModelReply::text("Paid.").held_after(2)]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let mut stays = run.stream(None).await;
    until(&mut stays, "model.delta").await;
    world.model.release();
    let place = until(&mut stays, "run.waiting").await.iter().filter_map(|event| event.id).next_back();
    let mut late = run.stream(place).await;
    run.approve().await;
    let mut events = until(&mut late, "model.delta").await;
    world.model.release();
    events.extend(late.rest().await);
    assert_eq!(words(&events), BTreeMap::from([((2, 1), "Paid.".to_owned())]));
    run.ended().await;
}

#[tokio::test]
async fn nobody_hears_another_tenants_words() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let agent = |model: &str| world.agent(&[]).with(json!({"model": {"model": model}}));
    let mut streams = Vec::new();
    for (model, client) in [("mine", &world.client), ("theirs", &neighbour)] {
        world.model.script(model, [ModelReply::text(&format!("all {model}")).held_after(2)]);
        let body = json!({"agent": agent(model), "input": "go"});
        let run = client.post("/v1/runs", &body).await.is(201);
        let path = format!("/v1/runs/{}/events", run["id"].as_str().expect("an id"));
        let strangers = if model == "mine" { &neighbour } else { &world.client };
        for server in [&*world.server, &other] {
            let ask = strangers.at(server.url()).get(&path).header("accept", "text/event-stream");
            ask.await.refused(404, "not_found");
            streams.push((model, client.at(server.url()).stream(&path, None).await));
        }
    }
    let mut events = Vec::new();
    for (_, stream) in &mut streams {
        events.push(until(stream, "model.delta").await);
    }
    world.model.release();
    world.model.release();
    for (mut events, (model, stream)) in events.into_iter().zip(streams) {
        events.extend(stream.rest().await);
        assert_eq!(words(&events), BTreeMap::from([((1, 1), format!("all {model}"))]));
    }
}

/// A streamed answer in so many pieces.
fn pieces(pieces: &[&str]) -> ModelReply {
    let event = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let mut body: String = pieces.iter().map(|piece| event(json!({"content": piece}), Value::Null)).collect();
    body.push_str(&event(json!({}), "stop".into()));
    body.push_str("data: [DONE]\n\n");
    ModelReply::raw(200, "text/event-stream", body)
}

#[tokio::test]
async fn a_flood_of_letters_comes_as_words() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    let letters: Vec<&str> = ["a", "ß", " ", "😀"].into_iter().cycle().take(10_000).collect();
    let first = ModelReply::calls([("look", json!({}))]).and_text("Now: ").held_after(2);
    world.model.script("m", [first, pieces(&letters)]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    let mut streams = [run.stream(None).await, run.through(&world.client.at(other.url())).stream(None).await];
    let mut events =
        [until(&mut streams[0], "model.delta").await, until(&mut streams[1], "model.delta").await];
    world.model.release();
    for (events, stream) in events.iter_mut().zip(streams) {
        events.extend(stream.rest().await);
        assert_eq!(words(events)[&(2, 1)], letters.concat());
        let deltas = events.iter().filter(|event| event.kind == "model.delta").count();
        assert!(deltas < letters.len() / 10, "{deltas} events for {} letters", letters.len());
    }
    run.ended().await;
}

#[tokio::test]
async fn a_reader_that_sleeps_holds_up_nobody_and_goes_on_in_order() {
    let world = World::alone().await;
    let piece = "much to say ".repeat(400);
    world.model.script("m", [pieces(&vec![piece.as_str(); 1800])]);
    let run = world.start(&world.agent(&[])).await;
    let sleeper = run.stream(None).await;
    // The laws of all runs are of no interest here, and take their time with such an answer.
    let shown = run.when("the end", |run| run["status"] == "finished").await;
    let mut events = sleeper.rest().await;
    // It slept too long where the machine is slow: cut off, and it may resume.
    let was_cut = events.last().is_none_or(|event| event.kind != "run.finished");
    if was_cut {
        let place = events.iter().filter_map(|event| event.id).next_back();
        events.extend(run.stream(place).await.rest().await);
    }
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<u64>>());
    assert_eq!(events.last().map(|event| event.kind.as_str()), Some("run.finished"));
    // Words may be missing, but none is said twice or out of its place.
    let answer = shown["final_answer"].as_str().expect("an answer");
    let mut end = 0;
    for delta in events.iter().filter(|event| event.kind == "model.delta").map(|event| &event.data) {
        let (offset, text) =
            (delta["offset"].as_u64().expect("a number"), delta["text"].as_str().expect("text"));
        let offset = usize::try_from(offset).expect("a place");
        assert!(offset >= end, "{offset} after {end}");
        assert_eq!(answer.get(offset..offset + text.len()), Some(text));
        end = offset + text.len();
    }
    assert!(end == answer.len() || was_cut, "{end} of {}", answer.len());
}

/// What servers tell each other.
struct Wire {
    listener: PgListener,
    servers: Vec<String>,
}

impl Wire {
    async fn tap(world: &World) -> Self {
        let mut listener = PgListener::connect(world.database_url()).await.expect("a listener");
        listener.listen("answerable").await.expect("a channel");
        Self { listener, servers: Vec::new() }
    }

    /// All that is told until a server says the word, whose name is then known and whose words are heard.
    async fn until(&mut self, word: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let told = timeout(Duration::from_secs(30), self.listener.recv()).await.expect("a signal");
            let told = told.expect("a listener that works");
            let payload = told.payload().to_owned();
            heard.push(format!("{} {payload}", told.channel()));
            let Some((server, _)) = payload.split_once(' ').filter(|_| told.channel() == "answerable") else {
                continue;
            };
            if !self.servers.iter().any(|known| known == server) {
                self.listener.listen(&format!("answerable_{server}")).await.expect("a channel");
                self.servers.push(server.to_owned());
            }
            if payload.split(' ').skip(1).any(|said| said == word) {
                return heard;
            }
        }
    }

    /// All that is told until each of these servers has said something more.
    async fn settled(&mut self, world: &World, servers: &[&Server]) -> Vec<String> {
        let mut heard = Vec::new();
        for server in servers {
            // A changed tenant is told to all, after whatever that server had to tell before.
            let path = format!("/v1/tenants/{}", world.tenant);
            server.operator().patch(&path, &json!({"name": "as ever"})).await.ok();
            heard.extend(self.until("k").await);
        }
        heard
    }
}

/// Of what was told: who hears the run, and its words.
fn of_words(told: &[String], run: &Run<'_>) -> Vec<String> {
    let id = run.id.trim_start_matches("run_").replace('-', "");
    let is_signal = |told: &str| told.starts_with("answerable ") && !told.contains(&format!(" h{id}"));
    told.iter().filter(|told| told.contains(&id) && !is_signal(told)).cloned().collect()
}

#[tokio::test]
async fn words_leave_a_server_only_for_those_who_hear_them() {
    let world = World::alone().await;
    let mut wire = Wire::tap(&world).await;
    wire.settled(&world, &[&world.server]).await;
    // Heard at its owner.
    world.model.script("m", [ModelReply::text("Hello world").held_after(2)]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    let mut stream = run.stream(None).await;
    until(&mut stream, "model.delta").await;
    let told = wire.settled(&world, &[&world.server]).await;
    assert_eq!(of_words(&told, &run), Vec::<String>::new());
    world.model.release();
    stream.rest().await;
    // Heard by nobody, with another server there.
    let other = world.server.beside().await;
    let both = [&*world.server, &other];
    world.model.script("m", [ModelReply::text("Hello again")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let told = wire.settled(&world, &both).await;
    assert_eq!(of_words(&told, &run), Vec::<String>::new());
    // Heard at both: one of them owns it, so the other says that it hears, and is told.
    world.model.script("m", [ModelReply::text("Hello both").held_after(2)]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(3).await;
    for server in both {
        until(&mut run.through(&world.client.at(server.url())).stream(None).await, "model.delta").await;
    }
    let told = wire.settled(&world, &both).await;
    let told = of_words(&told, &run);
    assert!(told.iter().any(|told| told.starts_with("answerable ")), "{told:?}");
    assert!(told.iter().any(|told| told.starts_with("answerable_") && told.ends_with("\nHello")), "{told:?}");
    world.model.release();
    run.ended().await;
}

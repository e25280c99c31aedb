//! Servers that break in every way that servers break, for every recorded stream: what comes of it is a failure or the
//! whole reply, never less, and never a hang.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use answerable_core::model::{FailureKind, ModelFailure, ModelReply};
use answerable_models::Models;
use answerable_ports::{ModelProvider, Patience};

use crate::fixture::{self, Fixture, Wanted};
use crate::loopback::{Deed, Loopback, answer, head};
use crate::support;

/// One for all: to make one takes longer than most exchanges.
static MODELS: LazyLock<Models> = LazyLock::new(support::models);
/// Time enough.
const LONG: Duration = Duration::from_secs(20);
/// Time that runs out.
const SHORT: Duration = Duration::from_millis(60);

/// The recorded streams that end well.
fn streams() -> impl Iterator<Item = (Fixture, String)> {
    let with_reply = fixture::all().into_iter().filter(|fixture| matches!(fixture.wanted, Wanted::Reply(_)));
    with_reply.filter_map(|fixture| fixture.stream.clone().map(|stream| (fixture, stream)))
}

/// The first stream of each wire.
fn one_of_each_wire() -> Vec<(Fixture, String)> {
    let mut firsts: Vec<(Fixture, String)> = Vec::new();
    for (fixture, stream) in streams() {
        if firsts.iter().all(|(known, _)| known.wire != fixture.wire) {
            firsts.push((fixture, stream));
        }
    }
    firsts
}

async fn ask(fixture: &Fixture, deeds: Vec<Deed>, patience: Patience) -> Result<ModelReply, ModelFailure> {
    let server = Loopback::start(deeds).await;
    let mut target = support::target(&fixture.wire, &server.base_url);
    target.options = fixture.options.clone();
    // One broken server after the other is what is wanted here.
    target.options.insert("circuit_breaker".into(), false.into());
    MODELS.ask(&target, &fixture.request, patience, &support::Heard::default()).await
}

/// A stream that ends with its connection.
fn stream(text: &str) -> Vec<Deed> {
    vec![Deed::Send([&head("text/event-stream", "", None), text.as_bytes()].concat())]
}

/// Fails unless it is the whole reply or a failure that may pass; says which.
fn is_whole(fixture: &Fixture, came: &Result<ModelReply, ModelFailure>, about: &str) -> bool {
    let about = format!("{}, {about}", fixture.name);
    match came {
        Ok(reply) => {
            let mut reply = reply.clone();
            if let Wanted::Reply(wanted) = &fixture.wanted {
                // Some servers tell the counts after the reply's end: those may be lost, and are estimated then.
                reply.usage = reply.usage.or(wanted.usage);
            }
            fixture.wanted.check(&Ok(reply), &about);
        }
        Err(failure) => assert_eq!(failure.kind, FailureKind::Passing, "{about}: {failure:?}"),
    }
    came.is_ok()
}

/// Where events begin.
fn boundaries(stream: &str) -> Vec<usize> {
    stream.match_indices("\n\n").map(|(at, _)| at + 2).collect()
}

#[tokio::test]
async fn a_stream_that_is_cut_between_events() {
    let mut broken = 0;
    for (fixture, text) in streams() {
        let boundaries = boundaries(&text);
        for at in &boundaries {
            let about = format!("cut at {at}");
            let whole =
                is_whole(&fixture, &ask(&fixture, stream(&text[..*at]), Patience::total(LONG)).await, &about);
            // The line breaks where more was promised.
            let promised =
                [&head("text/event-stream", "", Some(text.len() + 9)), &text.as_bytes()[..*at]].concat();
            let came = ask(&fixture, vec![Deed::Send(promised)], Patience::total(LONG)).await;
            assert_eq!(is_whole(&fixture, &came, &about), whole, "{}, {about}: {came:?}", fixture.name);
            broken += usize::from(!whole);
        }
    }
    assert!(broken > 100, "most cuts are noticed: {broken}");
}

#[tokio::test]
async fn garbage_in_a_stream() {
    for (fixture, text) in streams() {
        let middle = boundaries(&text).first().copied().expect("an event");
        for garbage in
            ["data: {\"type\": \"conte\n\n", "data: 7\n\n", "data: <html>\n\n", "data: [\"a\"]\n\n"]
        {
            let broken = format!("{}{garbage}{}", &text[..middle], &text[middle..]);
            let came = ask(&fixture, stream(&broken), Patience::total(LONG)).await;
            assert!(!is_whole(&fixture, &came, garbage), "{}: {garbage}", fixture.name);
        }
        let error = "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"server_error\", \"message\": \"It broke\"}}\n\n";
        let broken = format!("{}{error}{}", &text[..middle], &text[middle..]);
        let came = ask(&fixture, stream(&broken), Patience::total(LONG)).await;
        assert!(!is_whole(&fixture, &came, "an error event"), "{}", fixture.name);
        assert!(came.is_err_and(|failure| failure.message.contains("It broke")), "{}", fixture.name);
    }
}

#[tokio::test]
async fn what_does_no_harm() {
    for (fixture, text) in streams() {
        for content_type in ["application/json", "text/plain", "application/octet-stream", "x"] {
            let came = ask(&fixture, answer(content_type, &text), Patience::total(LONG)).await;
            assert!(is_whole(&fixture, &came, content_type), "{}: {came:?}", fixture.name);
        }
        let commented = text
            .replace("\n\n", "\r\n\r\n: keep-alive\r\n\r\nevent: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n");
        let came = ask(&fixture, stream(&commented), Patience::total(LONG)).await;
        assert!(is_whole(&fixture, &came, "comments and pings"), "{}: {came:?}", fixture.name);
    }
}

#[tokio::test]
async fn events_that_come_twice() {
    for (fixture, text) in streams() {
        // Without ids and numbers, and with no word of its output at the end, nobody can tell.
        if fixture.name == "openai_responses/odd_server.json" {
            continue;
        }
        let twice: String = text.split_inclusive("\n\n").flat_map(|event| [event, event]).collect();
        let came = ask(&fixture, stream(&twice), Patience::total(LONG)).await;
        match (fixture.wire.as_str(), &fixture.wanted, &came) {
            // Where events aren't numbered, one that comes again can't be told from one that says the same. No call is
            // made of its pieces that could be carried out.
            ("anthropic" | "openai_chat", Wanted::Reply(wanted), Ok(reply)) => {
                let is_odd = |arguments: &str| serde_json::from_str::<serde_json::Value>(arguments).is_err();
                for call in &reply.calls {
                    let is_sound = wanted.calls.contains(call) || is_odd(&call.arguments);
                    assert!(is_sound, "{}: {call:?}", fixture.name);
                }
            }
            _ => drop(is_whole(&fixture, &came, "each event twice")),
        }
    }
}

#[tokio::test]
async fn bytes_one_by_one() {
    for (fixture, text) in one_of_each_wire() {
        let mut deeds = vec![Deed::Send(head("text/event-stream", "", None))];
        deeds.extend(text.bytes().map(|byte| Deed::Send(vec![byte])));
        let came = ask(&fixture, deeds, Patience::total(LONG)).await;
        assert!(is_whole(&fixture, &came, "byte by byte"), "{}: {came:?}", fixture.name);
    }
}

#[tokio::test]
async fn what_is_no_reply() {
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff];
    for (fixture, _) in one_of_each_wire() {
        let zipped = [head("text/event-stream", "content-encoding: gzip\r\n", None), gzip.to_vec()].concat();
        for (about, deeds) in [
            ("nothing", answer("text/event-stream", "")),
            ("a page", answer("text/html", "<html>Bad Gateway</html>")),
            ("half an object", answer("application/json", "{\"id\": \"x\", \"cont")),
            ("an object of another kind", answer("application/json", "{\"ok\": true}")),
            ("gzip garbage", vec![Deed::Send(zipped)]),
            ("no HTTP", vec![Deed::Send(b"\x16\x03\x01 what?\r\n\r\n".to_vec())]),
            ("no answer", vec![]),
        ] {
            let came = ask(&fixture, deeds, Patience::total(LONG)).await;
            assert!(!is_whole(&fixture, &came, about), "{}: {about}", fixture.name);
        }
    }
}

#[tokio::test]
async fn a_line_without_an_end() {
    for (fixture, _) in one_of_each_wire() {
        let begun = [head("text/event-stream", "", None), b"data: {\"type\": \"".to_vec()].concat();
        let endless = Deed::Repeat(vec![b'x'; 1 << 20], Duration::ZERO);
        let began = Instant::now();
        let came = ask(&fixture, vec![Deed::Send(begun), endless], Patience::total(LONG)).await;
        assert!(!is_whole(&fixture, &came, "a line without an end"));
        assert!(came.is_err_and(|failure| failure.message.contains("longer")), "{}", fixture.name);
        assert!(began.elapsed() < LONG, "it is not waited for");
    }
}

#[tokio::test]
async fn silence_and_pings_run_out_of_time() {
    let ping = || {
        Deed::Repeat(
            b": ping\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec(),
            Duration::from_millis(5),
        )
    };
    let silence = || Deed::Hold;
    let first = Patience { first: SHORT, ..Patience::total(LONG) };
    let idle = Patience { idle: SHORT, ..Patience::total(LONG) };
    for (fixture, text) in one_of_each_wire() {
        // Late enough that something was said: that a reply is begun is no word of it yet.
        let boundaries = boundaries(&text);
        let at = boundaries[boundaries.len() / 2];
        let opening = || Deed::Send(head("text/event-stream", "", None));
        let begun = || Deed::Send([&head("text/event-stream", "", None), &text.as_bytes()[..at]].concat());
        for (about, patience, deeds, words) in [
            ("no answer", Patience::total(SHORT), vec![silence()], "no whole reply"),
            ("no answer", first, vec![silence()], "no first word"),
            ("no word", first, vec![opening(), silence()], "no first word"),
            ("pings alone", first, vec![opening(), ping()], "no first word"),
            ("silence after it began", idle, vec![begun(), silence()], "nothing more"),
            ("pings after it began", idle, vec![begun(), ping()], "nothing more"),
            ("pings for good", Patience::total(SHORT), vec![begun(), ping()], "no whole reply"),
        ] {
            let began = Instant::now();
            let came = ask(&fixture, deeds, patience).await;
            assert!(!is_whole(&fixture, &came, about), "{}: {about}", fixture.name);
            let failure = came.expect_err("a failure");
            assert!(failure.message.contains(words), "{}, {about}: {failure:?}", fixture.name);
            assert!(began.elapsed() < LONG, "{}: {about}", fixture.name);
        }
    }
}

//! Pictures of a history: loaded for each request, told of where they are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use answerable_core::attachments::MAX_SHOWN_BYTES;
use answerable_core::id::{ArtifactId, MessageId};
use answerable_core::message::{Attachment, AttachmentSource, Message, Part, Role};
use answerable_core::model::ModelRequest;
use answerable_core::tool::{Attempt, Output};
use uuid::Uuid;

use crate::desk::{Desk, Heard};

const LEASE: Duration = Duration::from_secs(5);

fn id(number: u128) -> ArtifactId {
    ArtifactId(Uuid::from_u128(number))
}

fn picture(number: u128, bytes: u64) -> Part {
    let source = AttachmentSource::Artifact { id: id(number), bytes };
    Part::Image(Attachment { media_type: "image/png".into(), name: None, source })
}

fn kept(number: u128) -> (ArtifactId, Arc<[u8]>) {
    (id(number), Arc::from(number.to_be_bytes().as_slice()))
}

/// A desk whose run was given these pictures, each with a message of its own.
fn desk(pictures: &[(u128, u64)]) -> Arc<Desk> {
    let desk = Desk::new();
    let said = (1..).zip(pictures).map(|(seq, (number, bytes))| Message {
        parts: vec![Part::Text("see".into()), picture(*number, *bytes)],
        ..Message::text(MessageId(Uuid::now_v7()), seq, Role::User, "see")
    });
    desk.run.lock().expect("no panic").history.extend(said);
    desk.now(|ways| ways.answer = Some(Attempt::Succeeded(Output::plain("paid"))));
    desk
}

fn asked(desk: &Desk) -> Vec<ModelRequest> {
    let request = |heard| match heard {
        Heard::Asked(request) => Some(*request),
        _ => None,
    };
    desk.all().into_iter().filter_map(request).collect()
}

#[tokio::test]
async fn each_request_has_what_its_messages_show() {
    let desk = desk(&[(1, 16), (2, 16)]);
    desk.now(|ways| ways.artifacts = BTreeMap::from([kept(2), kept(3)]));
    let engine = desk.start(LEASE);
    desk.ended().await;
    engine.drain().await;
    let requests = asked(&desk);
    assert_eq!(requests.len(), 2, "for the call, then for the answer");
    for request in requests {
        assert_eq!(request.attachments, BTreeMap::from([kept(2)]), "what is asked for and there");
        let (gone, there) = (&request.messages[0], &request.messages[1]);
        assert!(gone.parts.is_empty() && gone.content.contains("not kept any more"), "{}", gone.content);
        assert_eq!(there.parts, [Part::Text("see".into()), picture(2, 16)]);
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_asked_again() {
    let desk = desk(&[(1, 16)]);
    desk.now(|ways| {
        ways.artifacts = BTreeMap::from([kept(1)]);
        ways.artifacts_fail = true;
    });
    let engine = desk.start(LEASE);
    desk.until_heard(2, |heard| matches!(heard, Heard::ArtifactsFailed)).await;
    assert!(asked(&desk).is_empty(), "the model isn't asked without them");
    desk.now(|ways| ways.artifacts_fail = false);
    desk.ended().await;
    engine.drain().await;
    assert_eq!(asked(&desk)[0].attachments, BTreeMap::from([kept(1)]));
}

#[tokio::test]
async fn what_is_too_much_for_a_request_is_not_loaded() {
    let desk = desk(&[(1, 16), (2, MAX_SHOWN_BYTES)]);
    desk.now(|ways| ways.artifacts = BTreeMap::from([kept(1), kept(2)]));
    let engine = desk.start(LEASE);
    desk.ended().await;
    engine.drain().await;
    let request = asked(&desk).remove(0);
    assert_eq!(request.attachments, BTreeMap::from([kept(2)]));
    assert!(request.messages[0].content.contains("left out"), "{}", request.messages[0].content);
}

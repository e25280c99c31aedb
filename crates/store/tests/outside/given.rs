//! What people send with messages: kept as artifacts, found again, gone with its run.

use std::collections::BTreeSet;

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId};
use answerable_core::input::{Content, InputMessage, read_content, read_input};
use answerable_core::message::{AttachmentSource, Message, Part, Role};
use answerable_core::run::Event;
use answerable_core::trace::TraceContext;
use answerable_ports::RunStore;
use answerable_ports::commit::{InboundBody, Release, StoredArtifact};
use answerable_store::{ChangeRefused, Changer, Fork, HeirRefused, NewHeir, RunDeleted, RunRefused, Stand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{World, first_step, new_call};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n first";
const OTHER: &[u8] = b"\x89PNG\r\n\x1a\n second";

fn picture(bytes: &[u8]) -> Value {
    json!({"type": "image", "data": STANDARD.encode(bytes)})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn refer(id: ArtifactId) -> Value {
    json!({"type": "image", "artifact_id": id})
}

fn content(parts: Value) -> Content {
    read_content(&parts).expect("a content")
}

fn said(parts: Value) -> Vec<InputMessage> {
    read_input(&json!([{"role": "user", "content": parts, "pinned": true}])).expect("an input")
}

async fn started(world: &World, parts: Value) -> RunId {
    let messages = said(parts);
    world.start(|new| new.messages = messages).await.expect("a run")
}

/// The artifacts that a message's pieces are, in order.
fn artifacts(parts: &[Part]) -> Vec<ArtifactId> {
    parts.iter().filter_map(|part| part.attachment()?.artifact()).collect()
}

/// The first message as the run is shown to have.
async fn first(world: &World, run: RunId) -> (String, Vec<Part>, bool) {
    let message = world.tx().await.message_list(run, 0, 1).await.expect("messages").remove(0);
    (message.content.clone(), message.parts().to_vec(), message.pinned())
}

/// The history as the engine loads it.
async fn history(world: &World, run: RunId) -> Vec<Message> {
    let lease = world.claim(run).await;
    world.engine.load(lease).await.expect("an answer").expect("the lease").history
}

async fn loaded(world: &World, tenant: TenantId, ids: &[ArtifactId]) -> Vec<(ArtifactId, Vec<u8>)> {
    let found = world.engine.artifacts(tenant, ids).await.expect("an answer");
    found.into_iter().map(|(id, bytes)| (id, bytes.to_vec())).collect()
}

#[tokio::test]
async fn what_comes_with_an_input_is_kept_once_and_told_of() {
    let world = World::new().await;
    let parts = json!([text("see"), picture(PNG), picture(OTHER), picture(PNG)]);
    let run = started(&world, parts).await;
    let (words, parts, pinned) = first(&world, run).await;
    assert_eq!((words.as_str(), parts.len(), pinned), ("see", 4, true));
    let ids = artifacts(&parts);
    assert_eq!(ids[0], ids[2], "the same bytes, kept once");
    let listed = world.tx().await.artifact_list(run, None, 9).await.expect("artifacts");
    assert_eq!(listed.len(), 2);
    for artifact in &listed {
        assert_eq!((artifact.call_id, artifact.media_type.as_str()), (None, "image/png"));
    }
    let sizes: BTreeSet<i64> = listed.iter().map(|artifact| artifact.bytes).collect();
    assert_eq!(sizes, BTreeSet::from([PNG.len() as i64, OTHER.len() as i64]));
    let (media_type, bytes) =
        world.tx().await.artifact_content(ids[1]).await.expect("an answer").expect("it is there");
    assert_eq!((media_type.as_str(), &bytes[..]), ("image/png", OTHER));
    let history = history(&world, run).await;
    assert_eq!((&history[0].parts, history[0].pinned, history[0].seq), (&parts, true, 1));
    let found = loaded(&world, world.tenant, &ids).await;
    let mut wanted = vec![(ids[0], PNG.to_vec()), (ids[1], OTHER.to_vec())];
    wanted.sort();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn text_alone_leaves_nothing_behind() {
    let world = World::new().await;
    let run = world.start(|new| new.messages = vec![InputMessage::of_user("go")]).await.expect("a run");
    assert_eq!(first(&world, run).await, ("go".into(), vec![], false));
    let bare: bool = sqlx::query_scalar("SELECT more IS NULL FROM messages WHERE run_id = $1")
        .bind(run.0)
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("a row");
    assert!(bare);
}

#[tokio::test]
async fn what_is_said_to_a_live_run_is_kept_too() {
    let world = World::new().await;
    let run = started(&world, json!([picture(PNG)])).await;
    let old = artifacts(&first(&world, run).await.1)[0];
    let mut tx = world.tx().await;
    let word = content(json!([text("and"), picture(PNG), picture(OTHER)]));
    let (message, _) = tx.run_steer(run, &word, true).await.expect("an answer").expect("steered");
    tx.commit().await.expect("committed");
    assert_eq!((message.role, message.content.as_str(), message.pinned), (Role::User, "and", true));
    assert_eq!(artifacts(&message.parts)[0], old, "the run has it already");
    let InboundBody::Steer { message_id, content, parts, pinned } = world.inbox(run).await.remove(0) else {
        panic!("something else came in")
    };
    assert_eq!((message_id, &content, &parts, pinned), (message.id, &message.content, &message.parts, true));
    let (lease, at) = (world.claim(run).await, world.now().await);
    let events = vec![Event::Started { at }, Event::Steered { at, message_id, content, parts, pinned }];
    world.fold(lease, events, Release::Park { wake_at: None }).await;
    let listed = world.tx().await.message_list(run, 0, 9).await.expect("messages");
    assert_eq!((listed[1].parts(), listed[1].pinned()), (&message.parts[..], true));
    assert_eq!(world.tx().await.artifact_list(run, None, 9).await.expect("artifacts").len(), 2);
}

/// The pointer at which a run with this input is refused.
async fn refused_at(world: &World, parts: Value) -> String {
    let mut messages = vec![InputMessage::of_user("go")];
    messages.extend(said(parts));
    match world.start(|new| new.messages = messages).await {
        Err(RunRefused::Input(fault)) => fault.pointer,
        other => panic!("{other:?}"),
    }
}

/// The version of the state that a server must understand to claim the run.
async fn needed(world: &World, run: RunId) -> i16 {
    let needs = sqlx::query_scalar("SELECT needs FROM run_queue WHERE run_id = $1").bind(run.0);
    needs.fetch_one(&mut world.superuser().await).await.expect("a row")
}

#[tokio::test]
async fn servers_that_know_of_no_pieces_leave_them_to_others() {
    let world = World::new().await;
    assert_eq!(needed(&world, started(&world, json!([picture(PNG)])).await).await, 3);
    let plain = world.start(|_| ()).await.expect("a run");
    assert_eq!(needed(&world, plain).await, 1);
    for (word, pinned, needs) in [("a", false, 1), ("b", true, 3)] {
        let mut tx = world.tx().await;
        tx.run_steer(plain, &word.into(), pinned).await.expect("an answer").expect("steered");
        tx.commit().await.expect("committed");
        assert_eq!(needed(&world, plain).await, needs);
    }
    let (lease, at) = (world.claim(plain).await, world.now().await);
    let steered = |pinned| Event::Steered {
        at,
        message_id: answerable_core::id::MessageId(Uuid::now_v7()),
        content: "b".into(),
        parts: Vec::new(),
        pinned,
    };
    let state =
        world.fold(lease, vec![Event::Started { at }, steered(true), steered(false)], Release::Keep).await;
    assert_eq!((state.version, needed(&world, plain).await), (3, 3));
}

#[tokio::test]
async fn only_what_the_tenant_has_is_referred_to() {
    let world = World::new().await;
    let run = started(&world, json!([picture(PNG)])).await;
    let id = artifacts(&first(&world, run).await.1)[0];
    let again = started(&world, json!([text("again"), refer(id)])).await;
    let (_, parts, _) = first(&world, again).await;
    assert_eq!(artifacts(&parts), [id]);
    let Some(Part::Image(picture_again)) = parts.last() else { panic!("a picture") };
    assert_eq!(picture_again.media_type, "image/png");
    assert_eq!(picture_again.source, AttachmentSource::Artifact { id, bytes: PNG.len() as u64 });
    assert!(world.tx().await.artifact_list(again, None, 9).await.expect("artifacts").is_empty());

    let nowhere = ArtifactId(Uuid::now_v7());
    assert_eq!(refused_at(&world, json!([text("a"), refer(nowhere)])).await, "/1/content/1/artifact_id");
    let mut tx = world.tx().await;
    let steered = tx.run_steer(run, &content(json!([refer(nowhere)])), false).await.expect("an answer");
    let Err(ChangeRefused::Invalid(faults)) = steered else { panic!("{steered:?}") };
    assert_eq!(faults[0].pointer, "/content/0/artifact_id");
    drop(tx);

    let stranger = world.another_tenant().await;
    assert_eq!(loaded(&world, stranger, &[id]).await, []);
    let mut tx = world.store.tenant(stranger).await.expect("a transaction");
    assert!(tx.artifact_hashes(&[id]).await.expect("an answer").is_empty());
}

#[tokio::test]
async fn a_tools_output_is_referred_to_as_what_it_is() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    let call = new_call(&world.registry(), "ask_user", &json!({}), at);
    let (chart, page) = (ArtifactId(Uuid::now_v7()), ArtifactId(Uuid::now_v7()));
    let output = |id, media_type: &str, content: &'static [u8]| StoredArtifact {
        id,
        call_id: call.id,
        media_type: media_type.into(),
        content: content.into(),
    };
    let (seq, mut commit) = world.draft(lease, first_step(at, vec![call.clone()]), Release::Keep).await;
    commit.artifacts =
        vec![output(chart, "application/octet-stream", PNG), output(page, "image/png", b"<html>")];
    world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    let listed = world.tx().await.artifact_list(run, None, 9).await.expect("artifacts");
    assert!(listed.iter().all(|artifact| artifact.call_id.map(CallId) == Some(call.id)));

    let later = started(&world, json!([refer(chart)])).await;
    let (_, parts, _) = first(&world, later).await;
    assert_eq!(parts[0].attachment().expect("a picture").media_type, "image/png", "by its bytes");
    assert_eq!(refused_at(&world, json!([refer(page)])).await, "/1/content/0/artifact_id", "no picture");
    let file = json!([{"type": "file", "artifact_id": page}]);
    let (_, parts, _) = first(&world, started(&world, file).await).await;
    assert_eq!(parts[0].attachment().expect("a file").media_type, "image/png", "as the tool said");
}

fn heir(messages: Vec<InputMessage>) -> NewHeir {
    NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: Stand::Fork(Fork { after_step: 0, agent: None, repeat_effects: false }),
        messages,
        trace: TraceContext::of("0123456789abcdef0123456789abcdef".into(), None, false),
        asker: Changer { by: "key_1".into(), is_admin: true },

        creators: Vec::new(),
    }
}

#[tokio::test]
async fn a_fork_stands_on_the_same_pictures_and_brings_its_own() {
    let world = World::new().await;
    let base = started(&world, json!([picture(PNG)])).await;
    let id = artifacts(&first(&world, base).await.1)[0];
    let (lease, at) = (world.claim(base).await, world.now().await);
    world
        .fold(lease, vec![Event::Started { at }, Event::CancelRequested { at, reason: None }], Release::End)
        .await;
    let fork = heir(said(json!([picture(OTHER)])));
    let mut tx = world.tx().await;
    tx.heir_create(base, &fork).await.expect("an answer").expect("a fork");
    tx.commit().await.expect("committed");
    let history = history(&world, fork.run_id).await;
    assert_eq!(history.iter().map(|message| message.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((artifacts(&history[0].parts), history[0].pinned), (vec![id], true));
    let own = artifacts(&history[1].parts);
    assert_eq!(loaded(&world, world.tenant, &own).await, [(own[0], OTHER.to_vec())]);
    assert_eq!(world.tx().await.artifact_list(fork.run_id, None, 9).await.expect("artifacts").len(), 1);

    let astray = heir(said(json!([refer(ArtifactId(Uuid::now_v7()))])));
    let refused = world.tx().await.heir_create(base, &astray).await.expect("an answer");
    let Err(HeirRefused::Run(RunRefused::Input(fault))) = refused else { panic!("{refused:?}") };
    assert_eq!(fault.pointer, "/0/content/0/artifact_id");
}

#[tokio::test]
async fn a_picture_goes_with_its_run() {
    let world = World::new().await;
    let run = started(&world, json!([picture(PNG)])).await;
    let id = artifacts(&first(&world, run).await.1)[0];
    world.end(run).await;
    let later = started(&world, json!([refer(id)])).await;
    let mut tx = world.tx().await;
    assert_eq!(tx.run_delete(run).await.expect("an answer"), RunDeleted::Deleted);
    tx.commit().await.expect("committed");
    assert_eq!(loaded(&world, world.tenant, &[id]).await, []);
    assert!(world.tx().await.artifact_fetch(id).await.expect("an answer").is_none());
    assert_eq!(artifacts(&history(&world, later).await[0].parts), [id], "the message says what it was");
    assert_eq!(refused_at(&world, json!([refer(id)])).await, "/1/content/0/artifact_id");
}

//! `write_file` and `edit_file`.

use answerable_core::tool::{Attempt, ErrorCode};
use serde_json::json;

use super::shelf::Mishap;
use super::world::World;

#[tokio::test]
async fn nothing_is_overwritten_that_was_not_seen_as_it_is() {
    let world = World::new();
    let write = |content: &str| json!({"path": "/a.txt", "content": content});
    let made = world.says("write_file", write("one")).await;
    assert_eq!(made, "Made a.txt, 3 bytes. It has version 1 now.");
    let replaced = world.says("write_file", write("three")).await;
    assert_eq!(replaced, "Replaced a.txt, 5 bytes. It has version 2 now.");
    world.shelf.put("a.txt", "somebody's");
    for (tool, input) in [
        ("write_file", write("mine")),
        ("edit_file", json!({"path": "a.txt", "old_text": "somebody", "new_text": "nobody"})),
    ] {
        let (code, words) = world.refuses(tool, input).await;
        assert_eq!(code, ErrorCode::Conflict);
        assert!(words.contains("version 2") && words.contains("version 3"), "{words}");
    }
    assert_eq!(world.shelf.text("a.txt").as_deref(), Some("somebody's"));
    world.says("read_file", json!({"path": "a.txt"})).await;
    world.says("write_file", write("mine")).await;
    assert_eq!(world.shelf.text("a.txt").as_deref(), Some("mine"));
}

#[tokio::test]
async fn what_was_never_read_is_not_overwritten_and_what_was_deleted_is_seen_first() {
    let world = World::new();
    world.shelf.put("a.txt", "somebody's");
    let write = || json!({"path": "a.txt", "content": "mine"});
    let (code, words) = world.refuses("write_file", write()).await;
    assert!(code == ErrorCode::Conflict && words.contains("read it first"), "{words}");
    world.says("edit_file", json!({"path": "a.txt", "old_text": "somebody", "new_text": "nobody"})).await;
    assert_eq!(world.shelf.text("a.txt").as_deref(), Some("nobody's"));
    world.shelf.delete("a.txt");
    let (code, words) = world.refuses("write_file", write()).await;
    assert!(code == ErrorCode::Conflict && words.contains("deleted"), "{words}");
    assert_eq!(world.refuses("read_file", json!({"path": "a.txt"})).await.0, ErrorCode::NotFound);
    world.says("write_file", write()).await;
    assert_eq!(world.shelf.text("a.txt").as_deref(), Some("mine"));
}

#[tokio::test]
async fn somebody_who_is_quicker_wins() {
    let world = World::new();
    world.says("write_file", json!({"path": "a.txt", "content": "mine"})).await;
    world.shelf.suffer(Mishap::Overtaken);
    for (tool, input) in [
        ("write_file", json!({"path": "a.txt", "content": "again"})),
        ("write_file", json!({"path": "new.txt", "content": "again"})),
    ] {
        let (code, words) = world.refuses(tool, input).await;
        assert!(code == ErrorCode::Conflict && words.contains("Nothing was written"), "{words}");
    }
    assert_eq!(world.shelf.text("a.txt").as_deref(), Some("somebody's"));
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_answers_when_it_is_sent_again() {
    for (tool, input) in [
        ("write_file", json!({"path": "a.txt", "content": "a lamp"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "key", "new_text": "lamp"})),
    ] {
        let world = World::new();
        world.says("write_file", json!({"path": "a.txt", "content": "a key"})).await;
        let call = World::call(tool, &json!({}), input);
        world.shelf.suffer(Mishap::AnswerLost);
        let first = world.send(&call).await.attempt;
        assert!(matches!(first, Attempt::Unclear(ErrorCode::Unavailable, _)), "{first:?}");
        world.shelf.suffer(Mishap::None);
        let again = world.send(&call).await.attempt;
        let Attempt::Succeeded(output) = again else { panic!("{again:?}") };
        assert!(output.content.ends_with("It has version 2 now."), "{}", output.content);
        assert_eq!(world.shelf.text("a.txt").as_deref(), Some("a lamp"), "{tool}");
    }
}

#[tokio::test]
async fn files_that_are_away_are_not_written() {
    let world = World::new();
    world.shelf.suffer(Mishap::Away);
    for (tool, input) in [
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "x", "new_text": "y"})),
        ("read_file", json!({"path": "a.txt"})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "x"})),
        ("read_artifact", json!({"artifact_id": "art_00000000-0000-0000-0000-000000000003"})),
    ] {
        let came = world.send(&World::call(tool, &json!({}), input)).await.attempt;
        assert!(matches!(came, Attempt::NotDone(ErrorCode::Unavailable, ..)), "{tool}: {came:?}");
    }
}

#[tokio::test]
async fn an_edit_that_does_not_fit_says_why() {
    let world = World::new();
    world.shelf.put("a.rs", "fn open(key: Key) {}\nfn shut(key: Key) {}\n");
    world.shelf.put("b.bin", &b"\xff\xfe"[..]);
    for (path, old, new, says) in [
        ("a.rs", "key", "lamp", "stands 2 times in a.rs, at lines 1, 2"),
        ("a.rs", "fn open(lock: Key) {}", "x", "     1\tfn open(key: Key) {}"),
        ("a.rs", "", "x", "old_text is empty"),
        ("a.rs", "open", "open", "the same"),
        ("b.bin", "a", "b", "no text in UTF-8"),
    ] {
        let (code, words) =
            world.refuses("edit_file", json!({"path": path, "old_text": old, "new_text": new})).await;
        assert!(code == ErrorCode::InvalidArguments && words.contains(says), "{words}");
    }
    let missing = json!({"path": "c", "old_text": "a", "new_text": "b"});
    assert_eq!(world.refuses("edit_file", missing).await.0, ErrorCode::NotFound);
    let edited = world.says("edit_file", json!({"path": "a.rs", "old_text": "shut", "new_text": ""})).await;
    assert!(edited.starts_with("Edited a.rs at line 2"), "{edited}");
}

#[tokio::test]
async fn paths_stay_within() {
    let world = World::new();
    for path in ["../a", "..", "", "/", "a/../../b", "a\\b", "file:///etc/passwd", "a\0", "./a"] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "old_text": "x", "new_text": "y"})),
        ] {
            assert_eq!(world.refuses(tool, input).await.0, ErrorCode::InvalidArguments, "{tool} {path:?}");
        }
    }
    for prefix in ["..", "../", "a/../b", "a\\"] {
        for (tool, input) in [
            ("list_files", json!({"prefix": prefix})),
            ("search_files", json!({"pattern": "x", "prefix": prefix})),
        ] {
            assert_eq!(world.refuses(tool, input).await.0, ErrorCode::InvalidArguments, "{tool} {prefix:?}");
        }
    }
}

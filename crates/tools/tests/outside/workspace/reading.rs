//! `read_file`, `list_files`, `search_files`, `read_artifact`.

use answerable_core::id::ArtifactId;
use answerable_core::tool::{Attempt, ErrorCode};
use serde_json::json;
use uuid::Uuid;

use super::world::World;

#[tokio::test]
async fn a_log_of_five_megabytes_comes_in_pages_that_meet() {
    let world = World::new();
    let line = |number: usize| format!("{number} {}", "x".repeat(90));
    let log: String = (1..=52_000).map(|number| line(number) + "\n").collect();
    assert!(log.len() > 5_000_000);
    world.shelf.put("big.log", log);
    let (mut from, mut pages) = (51_000, 0);
    loop {
        let page = world.says("read_file", json!({"path": "big.log", "from_line": from})).await;
        let (lines, note) = page.rsplit_once("\n[").expect("a note");
        assert!(lines.chars().count() <= 16_000 && note.contains("of 52000"), "{note}");
        let shown: Vec<&str> = lines.lines().collect();
        for (number, shown) in (from..).zip(&shown) {
            assert_eq!(shown.trim_start(), format!("{number}\t{}", line(number)));
        }
        (from, pages) = (from + shown.len(), pages + 1);
        match note.split_once("the next is from_line ") {
            Some((_, next)) => assert_eq!(next.trim_end_matches(']'), from.to_string()),
            None => break,
        }
    }
    assert_eq!((from, pages > 3), (52_001, true));
}

#[tokio::test]
async fn lines_are_numbered_and_chosen() {
    let world = World::new();
    world.shelf.put("a.txt", "\u{feff}one\r\ntwo\r\nthree");
    let read = |input| world.says("read_file", input);
    assert_eq!(
        read(json!({"path": "a.txt"})).await,
        "     1\tone\n     2\ttwo\n     3\tthree\n[a.txt, version 1: lines 1 to 3 of 3]"
    );
    assert_eq!(
        read(json!({"path": "a.txt", "from_line": 2, "lines": 1})).await,
        "     2\ttwo\n[a.txt, version 1: lines 2 to 2 of 3; the next is from_line 3]"
    );
    // Schemas take it for an integer.
    assert!(read(json!({"path": "a.txt", "from_line": 2.0})).await.contains("lines 2 to 3"));
    let (code, words) = world.refuses("read_file", json!({"path": "a.txt", "from_line": 4})).await;
    assert!(code == ErrorCode::InvalidArguments && words.contains("has 3 lines"), "{words}");
    world.shelf.put("empty", "");
    assert_eq!(read(json!({"path": "empty"})).await, "[empty: an empty file, version 2]");
}

#[tokio::test]
async fn one_long_line_is_cut_and_said_so() {
    let world = World::new();
    world.shelf.put("a.json", "ö".repeat(100_000));
    let page = world.says("read_file", json!({"path": "a.json"})).await;
    assert!(
        page.contains("[line 1 goes on for 84008 characters that don't fit]"),
        "{}",
        &page[page.len() - 200..]
    );
}

#[tokio::test]
async fn what_is_no_text_is_told_and_may_be_replaced() {
    let world = World::new();
    world.shelf.put("a.png", &b"\x89PNG\0\0"[..]);
    let (code, words) = world.refuses("read_file", json!({"path": "a.png"})).await;
    assert!(
        code == ErrorCode::InvalidArguments && words.contains("no text") && words.contains("6 bytes"),
        "{words}"
    );
    world.says("write_file", json!({"path": "a.png", "content": "a drawing in words"})).await;
    world.shelf.put("b.log", &b"caf\xe9\n"[..]);
    assert!(world.says("read_file", json!({"path": "b.log"})).await.contains("caf\u{fffd}"));
}

#[tokio::test]
async fn files_are_listed_with_their_sizes() {
    let world = World::new();
    assert_eq!(world.says("list_files", json!({})).await, "There are no files.");
    world.shelf.put("notes/a.txt", "one");
    world.shelf.put("b.txt", "three");
    assert_eq!(
        world.says("list_files", json!({})).await,
        "2 files:\nb.txt\t5 bytes, version 2\nnotes/a.txt\t3 bytes, version 1"
    );
    for prefix in ["notes", "/notes/", "notes/a"] {
        let listed = world.says("list_files", json!({"prefix": prefix})).await;
        assert_eq!(listed, "1 file:\nnotes/a.txt\t3 bytes, version 1");
    }
    let none = world.says("list_files", json!({"prefix": "x"})).await;
    assert_eq!(none, "There are no files whose path begins with x.");
}

#[tokio::test]
async fn lists_that_are_long_are_kept_whole() {
    let world = World::new();
    for number in 0..100 {
        world.shelf.put(&format!("notes/{number:04}.txt"), "x");
    }
    let small = json!({"output": {"max_chars": 100}});
    let came = world.send(&World::call("list_files", &small, json!({}))).await;
    let Attempt::Succeeded(output) = came.attempt else { panic!("{:?}", came.attempt) };
    assert!(output.truncated && output.artifact_id.is_some());
    let whole = String::from_utf8(came.artifacts[0].content.to_vec()).expect("text");
    assert_eq!(whole.lines().count(), 101);
}

#[tokio::test]
async fn lines_are_found_by_a_pattern() {
    let world = World::new();
    world.shelf.put("a.txt", "one red\none grey\n");
    world.shelf.put("notes/b.txt", "gray\n");
    let found = world.says("search_files", json!({"pattern": "gr[ea]y"})).await;
    assert_eq!(found, "a.txt:2: one grey\nnotes/b.txt:1: gray");
    let found = world.says("search_files", json!({"pattern": "(?i)GRAY", "prefix": "notes/"})).await;
    assert_eq!(found, "notes/b.txt:1: gray");
    assert_eq!(world.says("search_files", json!({"pattern": "blue"})).await, "Nothing matches.");
    let (code, words) = world.refuses("search_files", json!({"pattern": "("})).await;
    assert!(code == ErrorCode::InvalidArguments && words.contains("no regular expression"), "{words}");
}

#[tokio::test]
async fn many_files_are_fetched_together_and_as_many_as_are_searched() {
    let world = World::new();
    for number in 0..200 {
        world.shelf.put(&format!("small/{number:03}"), "a needle");
    }
    let found = world.says("search_files", json!({"pattern": "needle"})).await;
    assert!(
        found.starts_with("small/000:1: a needle\n") && found.ends_with("small/199:1: a needle"),
        "{found}"
    );
    assert_eq!(world.shelf.asked_contents(), 1);
    // Four files of 20 MiB: three are looked through, each by itself.
    for number in 0..4 {
        world.shelf.put(&format!("large/{number}"), "x".repeat(20 << 20));
    }
    let found = world.says("search_files", json!({"pattern": "y", "prefix": "large/"})).await;
    assert!(found.starts_with("Nothing matches.\n[only a part was searched: 3 of 4 files"), "{found}");
    assert_eq!(world.shelf.asked_contents(), 4);
}

#[tokio::test]
async fn searches_that_nobody_waits_for_any_more_are_given_up() {
    let world = World::new();
    // A quarter of an hour's work, for each.
    world.shelf.put("slow", "xa".repeat(8 << 20));
    world.shelf.put("quick", "a needle");
    let slow = json!({"pattern": "(?:[a-w]?[x-z]?){300}[0-9]", "prefix": "slow"});
    let call = World::call("search_files", &json!({"timeout_ms": 100}), slow);
    let all = futures::future::join_all((0..6).map(|_| world.send(&call))).await;
    for came in all {
        assert!(matches!(came.attempt, Attempt::Unclear(ErrorCode::Timeout, _)), "{came:?}");
    }
    let quick = json!({"pattern": "needle", "prefix": "quick"});
    assert_eq!(world.says("search_files", quick).await, "quick:1: a needle");
}

#[tokio::test]
async fn an_artifact_is_read_in_parts() {
    let world = World::new();
    let id = ArtifactId(Uuid::from_u128(9));
    world.shelf.keep(id, "text/plain", "0123456789".repeat(5));
    let small = json!({"output": {"max_chars": 20}});
    let read = |offset: u64| {
        world.says_with("read_artifact", small.clone(), json!({"artifact_id": id, "offset": offset}))
    };
    assert_eq!(read(0).await, "01234567890123456789\n[characters 0 to 20 of 50; the next is offset 20]");
    assert_eq!(read(45).await, "56789\n[characters 45 to 50 of 50]");
    let few = json!({"artifact_id": id, "limit": 3});
    assert!(world.says("read_artifact", few).await.starts_with("012\n"));
    let refuses = |input| world.refuses("read_artifact", input);
    assert_eq!(refuses(json!({"artifact_id": id, "offset": 51})).await.0, ErrorCode::InvalidArguments);
    for unknown in
        ["art_00000000-0000-0000-0000-000000000001", "run_00000000-0000-0000-0000-000000000009", "x"]
    {
        assert_eq!(refuses(json!({"artifact_id": unknown})).await.0, ErrorCode::NotFound);
    }
    let picture = ArtifactId(Uuid::from_u128(10));
    world.shelf.keep(picture, "image/png", &b"\x89PNG\0"[..]);
    let (code, words) = refuses(json!({"artifact_id": picture})).await;
    assert!(code == ErrorCode::InvalidArguments && words.contains("image/png"), "{words}");
}

#[tokio::test]
async fn input_that_a_wider_schema_let_through_is_refused() {
    let world = World::new();
    for (tool, input) in [
        ("read_file", json!({})),
        ("read_file", json!({"path": 5})),
        ("read_file", json!({"path": "a", "from_line": "two"})),
        ("read_file", json!({"path": "a", "from_line": 1.5})),
        ("write_file", json!({"path": "a"})),
        ("list_files", json!({"prefix": 5})),
        ("read_artifact", json!({"artifact_id": "art_00000000-0000-0000-0000-000000000001", "offset": -1})),
    ] {
        assert_eq!(world.refuses(tool, input).await.0, ErrorCode::InvalidArguments, "{tool}");
    }
}

use proptest::prelude::*;

use super::*;

fn reply(attempt: u32) -> Reply {
    Reply { epoch: 1, step: 1, attempt }
}

fn words(attempt: u32, offset: u64, text: &str) -> Words {
    Words { reply: reply(attempt), offset, text: text.into() }
}

fn all(board: &Board, place: &mut Place, max: usize) -> Vec<Words> {
    std::iter::from_fn(|| board.read(place, max)).collect()
}

fn text(all: &[Words]) -> String {
    all.iter().map(|words| words.text.as_str()).collect()
}

proptest! {
    #[test]
    fn whatever_is_said_is_read_in_order(
        pieces in prop::collection::vec(any::<String>(), 0..20),
        reads in prop::collection::vec(1usize..9, 20),
    ) {
        let (board, mut place, mut read) = (Board::new(), Place::default(), Vec::new());
        for (piece, max) in pieces.iter().zip(reads) {
            board.say(reply(1), piece);
            // Some readers leave something for the next time.
            read.extend(board.read(&mut place, max));
        }
        read.extend(all(&board, &mut place, 5));
        prop_assert_eq!(text(&read), pieces.concat());
        let mut offset = 0;
        for words in &read {
            prop_assert_eq!(words.offset, offset);
            offset += chars(&words.text);
        }
        prop_assert!(!board.has_more(&place));
    }

    #[test]
    fn what_is_heard_twice_is_said_once(whole in any::<String>(), cuts in prop::collection::vec((0usize..40, 0usize..40), 0..9)) {
        let characters: Vec<char> = whole.chars().collect();
        let (board, mut end) = (Board::new(), 0);
        // Each piece begins somewhere in what was heard already, as after a renewed interest.
        for (back, length) in cuts {
            let from = end - back.min(end);
            let to = (from + length).min(characters.len());
            let piece: String = characters[from..to].iter().collect();
            board.hear(&words(1, from as u64, &piece));
            end = end.max(to);
        }
        let heard = text(&all(&board, &mut Place::default(), 7));
        prop_assert_eq!(heard, characters[..end].iter().collect::<String>());
    }
}

#[test]
fn a_new_attempt_begins_anew_and_the_old_one_is_silent() {
    let (board, mut place) = (Board::new(), Place::default());
    board.say(reply(1), "Hel");
    assert_eq!(board.read(&mut place, 99), Some(words(1, 0, "Hel")));
    board.say(reply(2), "Good day");
    board.say(reply(1), "lo");
    board.hear(&words(1, 3, "lo"));
    assert_eq!(board.read(&mut place, 99), Some(words(2, 0, "Good day")));
    assert_eq!(board.read(&mut place, 99), None);
    // Whoever took the run over is later, whatever its attempt's number.
    let anew = Reply { epoch: 2, ..reply(1) };
    board.hear(&Words { reply: anew, ..words(1, 0, "Hi") });
    board.say(reply(2), "!");
    assert_eq!(all(&board, &mut place, 99), [Words { reply: anew, ..words(1, 0, "Hi") }]);
}

#[test]
fn the_end_of_a_reply_is_told_once_and_after_its_words() {
    let (here, there) = (Board::new(), Board::new());
    here.begin(reply(1));
    assert!(here.is_whole(1, 1) && !there.is_whole(1, 1));
    here.say(reply(1), "Hello");
    let (mut place, mut heard) = (Place::default(), Place::default());
    let mut pass_on = || all(&here, &mut place, 3).iter().for_each(|words| there.hear(words));
    pass_on();
    assert!(!there.is_whole(1, 1));
    here.say(reply(1), "");
    assert!(here.is_whole(1, 1) && !here.is_whole(1, 2));
    pass_on();
    assert!(there.is_whole(1, 1));
    assert_eq!(all(&there, &mut heard, 99), [words(1, 0, "Hello"), words(1, 5, "")]);
    assert!(!there.has_more(&heard));
    there.hear(&words(2, 0, ""));
    assert!(there.is_whole(1, 1) && there.is_whole(1, 2) && !there.is_whole(2, 1));
}

#[test]
fn lost_words_leave_a_gap_that_can_be_seen() {
    let (board, mut place) = (Board::new(), Place::default());
    board.hear(&words(1, 0, "äb"));
    assert_eq!(board.read(&mut place, 99), Some(words(1, 0, "äb")));
    board.hear(&words(1, 4, "ef"));
    assert_eq!(board.read(&mut place, 99), Some(words(1, 4, "ef")));
    // Too late now.
    board.hear(&words(1, 2, "cd"));
    assert_eq!(board.read(&mut place, 99), None);
}

#[test]
fn a_flood_leaves_its_end_and_takes_no_more_room() {
    let (board, mut place, mut late) = (Board::new(), Place::default(), Place::default());
    board.say(reply(1), "begin ");
    board.read(&mut late, 3);
    for number in 0..300_000 {
        board.say(reply(1), if number % 2 == 0 { "a" } else { "ß" });
    }
    board.say(reply(1), &"ü".repeat(5 << 20));
    assert!(board.said().text.capacity() <= 4 * KEPT, "{}", board.said().text.capacity());
    for place in [&mut place, &mut late] {
        let read = all(&board, place, 4096);
        let length = text(&read).len();
        assert!((KEPT - 4..=2 * KEPT).contains(&length), "{length}");
        assert_eq!(read[0].offset + chars(&text(&read)), 6 + 300_000 + (5 << 20));
    }
}

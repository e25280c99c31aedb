use proptest::prelude::*;

use super::*;

const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(60);

/// Takes as many as `who` gets.
fn all_of(shares: &Shares<u8>, who: u8) -> Vec<Share<u8>> {
    std::iter::from_fn(|| shares.take(who).ok()).collect()
}

/// Returns when so many wait.
async fn in_line(shares: &Shares<u8>, many: usize) {
    let waiting = || shares.held().line.values().flatten().filter(|waiting| !waiting.is_closed()).count();
    while waiting() < many {
        tokio::task::yield_now().await;
    }
}

#[test]
fn one_alone_leaves_a_quarter_and_each_other_a_part_of_it() {
    let shares = Shares::new(512, 0);
    let first = all_of(&shares, 1);
    assert_eq!(first.len(), 384);
    assert_eq!(shares.take(1).err(), Some(Crowded::Part));
    let second = all_of(&shares, 2);
    assert_eq!(second.len(), 96);
    assert!(shares.take(3).is_ok() && shares.taken() == 480);
    drop((first, second));
    assert_eq!(shares.taken(), 0);
}

#[test]
fn few_places_are_places_too() {
    for all in 0..8 {
        let shares = Shares::new(all, 0);
        let own = all_of(&shares, 1);
        assert!(!own.is_empty(), "of {all}");
        assert_eq!(shares.take(2).is_ok(), all > 1, "of {all}");
    }
}

#[tokio::test]
async fn who_waits_gets_what_is_given_back_and_who_has_least_comes_first() {
    let shares = Shares::new(4, 9);
    let mut first = all_of(&shares, 1);
    let other = shares.take(2).expect("the last one");
    assert_eq!(first.len(), 3);
    let waiting = |who| {
        let shares = shares.clone();
        tokio::spawn(async move { shares.take_within(who, LATE).await })
    };
    let (greedy, newcomer) = (waiting(1), waiting(3));
    in_line(&shares, 2).await;
    first.pop();
    let got = newcomer.await.expect("it ends").expect("a place");
    assert!(!greedy.is_finished());
    drop((got, first));
    greedy.await.expect("it ends").expect("a place");
    drop(other);
    assert_eq!(shares.taken(), 0);
}

#[tokio::test]
async fn who_gives_up_waiting_keeps_nothing() {
    let shares = Shares::new(1, 1);
    let own = shares.take(1).expect("the only one");
    assert_eq!(shares.take_within(2, SOON).await.err(), Some(Crowded::Full));
    // One may wait, and who has given up counts no more; the next is told at once.
    let waiting = tokio::spawn({
        let shares = shares.clone();
        async move { shares.take_within(2, LATE).await }
    });
    in_line(&shares, 1).await;
    assert_eq!(shares.take_within(3, LATE).await.err(), Some(Crowded::Full));
    waiting.abort();
    drop(waiting.await);
    drop(own);
    assert_eq!(shares.taken(), 0);
    assert!(shares.take(3).is_ok());
}

proptest! {
    #[test]
    fn whatever_four_do_there_are_never_more_and_a_fifth_finds_a_place(
        all in 300_usize..600,
        moves in prop::collection::vec((0_u8..4, any::<bool>(), 1_usize..200), 1..60),
    ) {
        let shares = Shares::new(all, 0);
        let mut own: Vec<Vec<Share<u8>>> = (0..4).map(|_| Vec::new()).collect();
        for (who, takes, count) in moves {
            let mine = &mut own[usize::from(who)];
            for _ in 0..count {
                if takes { mine.extend(shares.take(who).ok()) } else { drop(mine.pop()) }
            }
            let taken: usize = own.iter().map(Vec::len).sum();
            prop_assert_eq!(taken, shares.taken());
            prop_assert!(taken <= all);
            prop_assert!(shares.take(9).is_ok());
        }
    }

    #[test]
    fn those_who_take_what_they_get_come_to_hold_the_same(all in 10_usize..600, many in 1_u8..6) {
        let shares = Shares::new(all, 0);
        let mut own: Vec<Vec<Share<u8>>> = (0..many).map(|_| Vec::new()).collect();
        loop {
            let before = shares.taken();
            for (who, mine) in (0..many).zip(&mut own) {
                mine.extend(shares.take(who).ok());
            }
            if shares.taken() == before {
                break;
            }
        }
        let counts = || own.iter().map(Vec::len);
        prop_assert!(counts().max().unwrap_or(0) - counts().min().unwrap_or(0) <= 1);
    }
}

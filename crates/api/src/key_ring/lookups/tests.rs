use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::*;

fn id(nth: usize) -> Uuid {
    Uuid::from_u128(nth as u128 + 1)
}

#[tokio::test]
async fn the_same_is_looked_up_once_and_what_is_missing_too() {
    let (lookups, asked) = (Lookups::new(), AtomicUsize::new(0));
    let look = |answer: Option<&'static str>| {
        let asked = &asked;
        async move {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(answer)
        }
    };
    let found = join_all((0..50).map(|_| lookups.find(id(1), look(Some("here"))))).await;
    let found: Vec<_> = found.into_iter().map(|found| found.expect("no problem")).collect();
    assert!(found.iter().all(|known| known.found.as_deref() == Some(&"here")));
    // One of them has looked.
    assert_eq!((found.iter().filter(|known| known.is_new).count(), asked.load(Ordering::SeqCst)), (1, 1));
    for _ in 0..5 {
        assert!(lookups.find(id(2), look(None)).await.expect("no problem").found.is_none());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    lookups.forget_all();
    lookups.find(id(1), look(Some("here"))).await.expect("no problem");
    lookups.find(id(2), look(None)).await.expect("no problem");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    lookups.forget(id(1)).await;
    lookups.forget(id(2)).await;
    lookups.find(id(1), look(Some("here"))).await.expect("no problem");
    lookups.find(id(2), look(None)).await.expect("no problem");
    assert_eq!(asked.load(Ordering::SeqCst), 6);
    // What is doubted is looked up anew, but not again and again.
    for nth in [1, 2] {
        assert!(lookups.doubt(id(nth)).await);
        assert!(lookups.find(id(nth), look(None)).await.expect("no problem").is_new);
        assert!(!lookups.doubt(id(nth)).await);
        assert!(!lookups.find(id(nth), look(None)).await.expect("no problem").is_new);
    }
}

/// A lookup that takes so long, counted while it is out.
struct Out {
    now: AtomicUsize,
    most: AtomicUsize,
    takes: Duration,
}

impl Out {
    fn new(takes: Duration) -> Self {
        Self { now: AtomicUsize::new(0), most: AtomicUsize::new(0), takes }
    }

    async fn look(&self, answer: Option<()>) -> Result<Option<()>, StoreError> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(answer)
    }
}

fn refused(answers: &[Result<Known<()>, Problem>]) -> usize {
    answers.iter().filter(|answer| answer.as_ref().is_err_and(Problem::is_ours)).count()
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_strange_ids_makes_few_lookups_and_holds_up_nobody_who_is_known() {
    let (lookups, out) = (Lookups::new(), Out::new(Duration::from_millis(100)));
    assert!(lookups.find(id(1), async { Ok(Some(())) }).await.expect("no problem").found.is_some());
    lookups.forget_all();
    let began = Instant::now();
    let flood = join_all((10..210).map(|nth| lookups.find(id(nth), out.look(None))));
    let known = async {
        tokio::time::sleep(STRANGE_PATIENCE / 2).await;
        let before = Instant::now();
        let found = lookups.find(id(1), async { Ok(Some(())) }).await.expect("no problem").found;
        assert!(found.is_some() && before.elapsed() < STRANGE_PATIENCE / 10);
    };
    let (flood, ()) = tokio::join!(flood, known);
    // Once it is plain that they are made up, nobody waits longer than a short while.
    assert!(began.elapsed() <= STRANGE_PATIENCE * 4, "{:?}", began.elapsed());
    assert_eq!(out.most.load(Ordering::SeqCst), STRANGE_AT_ONCE);
    assert!(refused(&flood) >= 200 - 11 * STRANGE_AT_ONCE, "{}", refused(&flood));
    let before = Instant::now();
    let more = join_all((300..330).map(|nth| lookups.find(id(nth), out.look(None)))).await;
    assert!(before.elapsed() <= STRANGE_PATIENCE + out.takes, "{:?}", before.elapsed());
    assert!(refused(&more) >= 30 - 3 * STRANGE_AT_ONCE, "{}", refused(&more));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_seen_nobody_takes_over_thousands() {
    let (lookups, out) = (Lookups::new(), Out::new(Duration::from_millis(2)));
    // A few have keys that are gone.
    let answer = |nth: usize| (!nth.is_multiple_of(50)).then_some(());
    let all = join_all((0..3000).map(|nth| lookups.find(id(nth), out.look(answer(nth))))).await;
    assert_eq!((refused(&all), out.most.load(Ordering::SeqCst)), (0, STRANGE_AT_ONCE));
}

#[tokio::test(start_paused = true)]
async fn who_has_no_turn_for_long_is_told_so() {
    let (lookups, out) = (Lookups::new(), Out::new(PATIENCE * 9));
    let began = Instant::now();
    let behind = async {
        let behind = lookups.find(id(9), out.look(Some(()))).await;
        (refused(&[behind]), began.elapsed())
    };
    let first = join_all((0..STRANGE_AT_ONCE).map(|nth| lookups.find(id(nth), out.look(Some(())))));
    let (first, (behind, waited)) = tokio::join!(first, behind);
    assert_eq!((refused(&first), behind), (0, 1));
    assert!((PATIENCE..PATIENCE * 2).contains(&waited), "{waited:?}");
}

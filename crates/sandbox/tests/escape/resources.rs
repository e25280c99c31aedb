//! Attempts to use more than there is for a command.

use std::time::{Duration, Instant, SystemTime};

use answerable_sandbox::{How, Limits, Stop};

use crate::hidden;
use crate::world::{limits, run, sandbox, until_gone};

const MIB: u64 = 1 << 20;

fn small() -> Limits {
    Limits { memory: 128 * MIB, disk: 20 * MIB, entries: 2_000, file: 8 * MIB, ..limits(20) }
}

/// Attempts, what they are limited to, and how they must end; `None`: by themselves, having been refused.
fn attempts() -> Vec<(&'static str, &'static str, Limits, Option<Stop>)> {
    let small = small();
    let short = Limits { processes: 20, ..limits(2) };
    vec![
        ("a fork bomb", "f() { f | f & }; (f); exec perl -e 'sleep 60'", short, Some(Stop::Time)),
        ("forks without end", "perl -e 'while (1) { fork }'", short, Some(Stop::Time)),
        (
            "more processes than there may be",
            "perl -e '$| = 1; while (defined($p = fork)) { if (!$p) { sleep 30; exit } $n++ } print \"only $n\\n\"; kill 9, -1' ",
            short,
            None,
        ),
        (
            "one process with much memory",
            "perl -e '$x = \"x\" x 500_000_000; print \"OUT\"' ; echo only",
            small,
            None,
        ),
        (
            "mapped memory",
            "perl -e 'my @x; while (1) { push @x, \"x\" x 10_000_000 } print \"OUT\"'; echo only",
            small,
            None,
        ),
        (
            "many processes with some memory",
            "for i in 1 2 3 4 5 6 7 8; do perl -e '$x = \"x\" x 60_000_000; sleep 30' & done; wait",
            small,
            Some(Stop::Memory),
        ),
        (
            "memory as files",
            "head -c 500M /dev/zero >/dev/shm/x && echo OUT; head -c 500M /dev/zero >/tmp/x && echo OUT; echo only",
            Limits { file: 1 << 30, ..small },
            None,
        ),
        ("one large file", "head -c 100M /dev/zero >x && echo OUT; echo only $(stat -c %s x)", small, None),
        (
            "many files",
            "for i in $(seq 1000); do head -c 1M /dev/zero >$i || exit; done; sleep 30",
            small,
            Some(Stop::Disk),
        ),
        (
            "files that are deleted and open",
            "perl -e 'for my $i (1..60) { open($f[$i], \">\", \"x\"); unlink \"x\"; syswrite($f[$i], \"x\" x 1_000_000) } sleep 30'",
            small,
            Some(Stop::Disk),
        ),
        (
            "many empty files",
            "perl -e 'while (1) { $i++; open(F, \">\", $i); close F }'",
            small,
            Some(Stop::Disk),
        ),
        ("a deep tree", "perl -e 'while (1) { mkdir \"d\"; chdir \"d\" }'", small, Some(Stop::Disk)),
        ("a flood of output", "yes", small, Some(Stop::Output)),
        ("a flood of errors", "yes >&2", small, Some(Stop::Output)),
        ("a loop", "while :; do :; done", limits(1), Some(Stop::Time)),
        (
            "a sleep that hears nothing",
            "trap '' TERM INT HUP QUIT; while :; do sleep 60; done",
            limits(1),
            Some(Stop::Time),
        ),
        ("closed streams", "exec >&- 2>&-; sleep 60", limits(1), Some(Stop::Time)),
        (
            "many open files",
            "perl -e 'while (open($f[$n], \"<\", \"/dev/null\")) { $n++ } print \"only $n\\n\"; print \"OUT\" if $n > 256'",
            small,
            None,
        ),
    ]
}

#[tokio::test]
async fn nobody_gets_more_than_the_limits() {
    let Some(sandbox) = sandbox() else { return };
    let hidden = hidden::attempts();
    let hidden = hidden.iter().map(|(name, command, stop)| (*name, command.as_str(), small(), Some(*stop)));
    for (name, command, limits, stop) in attempts().into_iter().chain(hidden) {
        let begun = Instant::now();
        let ended = run(&sandbox, command, limits).await;
        let said = ended.output.text();
        let path = ended.folder.path().to_owned();
        eprintln!("{name}: {:?} after {:?}, {} bytes said", ended.how, ended.took, ended.output.seen());
        match stop {
            Some(stop) => assert_eq!(ended.how, How::Stopped(stop), "{name}: {said:.2000}"),
            None => assert!(
                said.contains("only") && !said.contains("OUT"),
                "{name}: {:?}: {said:.2000}",
                ended.how
            ),
        }
        assert!(begun.elapsed() < limits.time + Duration::from_secs(3), "{name}: {:?}", begun.elapsed());
        assert!(said.len() <= limits.output * 3 + 100, "{name}: {} bytes are kept", said.len());
        drop(ended);
        until_gone(&path).await;
    }
}

#[tokio::test]
async fn many_files_do_not_make_the_watch_slow() {
    let Some(sandbox) = sandbox() else { return };
    let fill = "seq 40000 | xargs touch; sleep 1; date +%s%3N; for i in 1 2 3 4 5 6 7 8; do head -c 7M /dev/zero >$i; done; sleep 30";
    let ended = run(&sandbox, fill, Limits { entries: 50_000, disk: 20 * MIB, ..small() }).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    assert_eq!(ended.how, How::Stopped(Stop::Disk), "{}", ended.output.text());
    let then: u128 = ended.output.text().trim().parse().expect("a time");
    assert!(now - then < 3000, "{} ms", now - then);
}

#[tokio::test]
async fn the_number_of_processes_is_the_sandboxs_own() {
    let Some(sandbox) = sandbox() else { return };
    let count = "perl -e 'while (defined($p = fork)) { if (!$p) { sleep 5; exit } $n++ } print \"$n.\"'";
    let limits = Limits { processes: 30, ..limits(20) };
    let (one, other) = tokio::join!(run(&sandbox, count, limits), run(&sandbox, count, limits));
    for said in [one.output.text(), other.output.text()] {
        let forked: u32 = said.trim_end_matches('.').parse().expect("a number");
        // The shell may have become the program.
        assert!((28..=29).contains(&forked), "{said}");
    }
}

#[tokio::test]
async fn a_tree_that_changes_while_it_is_watched_leads_nowhere() {
    let Some(sandbox) = sandbox() else { return };
    let race = "mkdir d; perl -e '$end = time + 2; while (time < $end) { rename \"d\", \"e\"; symlink \"/\", \"d\"; unlink \"d\"; rename \"e\", \"d\" }'; echo done";
    let ended = run(&sandbox, race, Limits { entries: 100, ..limits(20) }).await;
    assert_eq!((ended.how, ended.output.text().as_str()), (How::Exited(0), "done\n"));
}

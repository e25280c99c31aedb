//! What the stage's journal excuses and explains.

use serde_json::Value;

/// After it goes on, what a stopped server had begun may arrive this much later.
const UNWINDS_MS: u64 = 2000;

/// A time in which a server stood still, and the moment after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    from_ms: u64,
    to_ms: u64,
}

/// All times in which a server stood still.
pub(super) fn stopped(stage: &[Value]) -> Vec<Stopped> {
    let mut all = Vec::new();
    for (n, line) in stage.iter().enumerate().filter(|(_, line)| line["what"] == "stop") {
        let same = |later: &&Value| later["what"] == "cont" && later["server"] == line["server"];
        // Not ended: to the round's end.
        let to = stage[n..].iter().find(same).map_or(u64::MAX - UNWINDS_MS, at_ms);
        all.push(Stopped { from_ms: at_ms(line), to_ms: to + UNWINDS_MS });
    }
    // A database whose clock jumps ahead ends every lease at that moment, and owners learn of it when they renew.
    let steps = stage.iter().filter(|line| line["what"] == "clock" && !line["database"].is_null());
    all.extend(
        steps.map(|line| Stopped { from_ms: at_ms(line), to_ms: at_ms(line) + lease_ms(stage) + UNWINDS_MS }),
    );
    all
}

fn lease_ms(stage: &[Value]) -> u64 {
    stage.iter().find_map(|line| line["lease_ms"].as_u64()).unwrap_or_default()
}

/// How often a run may at most have had to begin a turn again in a time because something was broken, with nobody's death:
/// an owner that can't reach the database gives its runs up. None where nothing was broken.
pub(super) fn upsets(stage: &[Value], from_ms: u64, to_ms: u64) -> usize {
    let (mut begun, mut faults) = (None, 0);
    for line in stage {
        match line["what"].as_str() {
            Some("fault.begin") => begun = Some(at_ms(line)),
            Some("calm") => {
                faults += usize::from(begun.is_some_and(|begun| begun <= to_ms && at_ms(line) >= from_ms));
                begun = None;
            }
            _ => {}
        }
    }
    // At most so many things are broken by one fault.
    (faults + usize::from(begun.is_some_and(|begun| begun <= to_ms))) * 6
}

/// Whether a server stood still then, or had just gone on.
pub(super) fn is_excused(stopped: &[Stopped], at_ms: u64) -> bool {
    stopped.iter().any(|span| (span.from_ms..=span.to_ms).contains(&at_ms))
}

/// Whether some fault lasted then.
pub(super) fn is_troubled(stage: &[Value], at_ms_: u64) -> bool {
    let mut last = None;
    for line in stage.iter().take_while(|line| at_ms(line) <= at_ms_) {
        if line["what"] == "fault.begin" || line["what"] == "calm" {
            last = line["what"].as_str();
        }
    }
    last == Some("fault.begin")
}

/// Deaths of servers in a time: each may have handed a run on, or back.
pub(super) fn deaths(stage: &[Value], from_ms: u64, to_ms: u64) -> usize {
    let in_time = |line: &&Value| line["what"] == "death" && (from_ms..=to_ms).contains(&at_ms(line));
    stage.iter().filter(in_time).count()
}

/// How often the owner of one run can have died in a time at most: who takes a run over waits for the rest of the lease,
/// of which a renewal leaves three quarters.
pub(super) fn owners_died(stage: &[Value], from_ms: u64, to_ms: u64) -> usize {
    let lease = lease_ms(stage);
    let (mut died, mut next) = (0, from_ms);
    for line in stage.iter().filter(|line| line["what"] == "death") {
        if (next..=to_ms).contains(&at_ms(line)) {
            died += 1;
            next = at_ms(line) + lease * 7 / 10;
        }
    }
    died
}

/// Measured takeovers, in milliseconds.
pub(super) fn takeovers(stage: &[Value]) -> Vec<u64> {
    stage.iter().filter(|line| line["what"] == "takeover").filter_map(|line| line["ms"].as_u64()).collect()
}

/// Whether the database's clock had been moved by then.
pub(super) fn database_clock_moved(stage: &[Value], by_ms: u64) -> bool {
    stage.iter().any(|line| line["what"] == "clock" && !line["database"].is_null() && at_ms(line) <= by_ms)
}

/// Faults that were made.
pub(super) fn faults(stage: &[Value]) -> usize {
    stage.iter().filter(|line| line["what"] == "fault.end" && line["how"] != "skipped").count()
}

fn at_ms(line: &Value) -> u64 {
    line["at_ms"].as_u64().unwrap_or_default()
}

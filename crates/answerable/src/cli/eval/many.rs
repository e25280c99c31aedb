//! All plays of all cases, several at a time.

use std::sync::Arc;
use std::time::Instant;

use answerable_evals::obstacle;
use answerable_evals::report::{CaseReport, Play, Report, Table, Tone, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use secrecy::ExposeSecret;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::args::Options;
use super::files::Found;
use super::place::Place;
use super::play::play;
use crate::Failure;
use crate::cli::output::{has_colors, say};

/// Plays the cases and prints each, in their order, as soon as those before it are printed.
pub(super) async fn play_all(
    found: Vec<Found>,
    place: Place,
    options: Options,
    interrupted: &CancellationToken,
) -> Result<Report, Failure> {
    let begun = Instant::now();
    let stage = place.stage(options.live_model.is_some(), options.live_tools);
    let mut cases: Vec<CaseReport> =
        found.iter().map(|one| unplayed(one, obstacle(&one.case, stage))).collect();
    let times = |case: &CaseReport| if case.skipped.is_some() { 0 } else { options.repeat };
    let mut open: Vec<usize> = cases.iter().map(times).collect();
    let mut printer = Printer::new(&cases, &options);
    printer.print(&cases, &open)?;
    let (options, enough) = (Arc::new(options), CancellationToken::new());
    let ends = Ends { enough: enough.clone(), interrupted: interrupted.clone() };
    let mut plays = begin(found, &open, place, &options, &ends);
    let mut told = Ok(());
    while let Some(joined) = plays.join_next().await {
        let (n, played) = joined.map_err(|error| Failure::new(format!("a play broke: {error}")))?;
        if interrupted.is_cancelled() {
            // The plays that are under way only tidy up.
            continue;
        }
        open[n] -= 1;
        add(&mut cases[n], played);
        if options.fail_fast && open[n] == 0 && cases[n].verdict(options.pass_rate) == Verdict::Failed {
            enough.cancel();
        }
        if told.is_ok() {
            told = printer.print(&cases, &open);
            // Where nobody reads any more, the plays that are under way still tidy up.
            told.as_ref().err().inspect(|_| enough.cancel());
        }
    }
    printer.end();
    told?;
    Ok(Report { cases, pass_rate: options.pass_rate, took: begun.elapsed() })
}

/// What keeps a play from beginning.
#[derive(Debug, Clone)]
struct Ends {
    /// A case has failed, and that is enough.
    enough: CancellationToken,
    /// The user wants no more.
    interrupted: CancellationToken,
}

/// Begins the plays of the n-th case as often as `times` says, a few at a time. Each gives its case's number, and nothing
/// where it did not begin.
fn begin(
    found: Vec<Found>,
    times: &[usize],
    place: Place,
    options: &Arc<Options>,
    ends: &Ends,
) -> JoinSet<(usize, Option<Play>)> {
    let (place, places) = (Arc::new(place), Arc::new(Semaphore::new(options.jobs)));
    let mut plays = JoinSet::new();
    for (n, one) in found.into_iter().enumerate() {
        let one = Arc::new(one);
        for _ in 0..times[n] {
            let (one, place, options) = (Arc::clone(&one), Arc::clone(&place), Arc::clone(options));
            let (places, ends) = (Arc::clone(&places), ends.clone());
            plays.spawn(async move {
                // It is never closed.
                let _place = places.acquire_owned().await;
                if ends.enough.is_cancelled() || ends.interrupted.is_cancelled() {
                    return (n, None);
                }
                let mut play = play(&one.case, &place, &options, &ends.interrupted).await;
                let secrets: Vec<&str> = options.secrets.iter().map(ExposeSecret::expose_secret).collect();
                play.mask(&secrets);
                // Said before the place is free for another; where some plays may fail, the rate is looked at later.
                if options.fail_fast && options.pass_rate >= 1.0 && !play.passed() {
                    ends.enough.cancel();
                }
                (n, Some(play))
            });
        }
    }
    plays
}

fn unplayed(one: &Found, skipped: Option<String>) -> CaseReport {
    CaseReport {
        name: one.case.name.clone(),
        file: one.file.clone(),
        tags: one.case.tags.clone(),
        plays: Vec::new(),
        skipped,
    }
}

/// Adds a play to a case; without one it was not its turn any more.
fn add(case: &mut CaseReport, played: Option<Play>) {
    match played {
        Some(play) => case.plays.push(play),
        None if case.plays.is_empty() => case.skipped = Some("another case failed first".to_owned()),
        None => {}
    }
}

/// Prints the table, and above it how far the plays are.
struct Printer {
    table: Table,
    bar: ProgressBar,
    printed: usize,
    verbose: bool,
}

impl Printer {
    fn new(cases: &[CaseReport], options: &Options) -> Self {
        let plays = cases.iter().filter(|case| case.skipped.is_none()).count() * options.repeat;
        // It hides itself where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(plays as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} played, {elapsed}") {
            bar.set_style(style);
        }
        let names = cases.iter().map(|case| case.name.as_str());
        Self { table: Table::new(names, options.pass_rate), bar, printed: 0, verbose: options.verbose }
    }

    /// Prints the cases whose turn has come: all plays of them and of those before them are over.
    fn print(&mut self, cases: &[CaseReport], open: &[usize]) -> Result<(), Failure> {
        let played: usize = cases.iter().map(|case| case.plays.len()).sum();
        self.bar.set_position(played as u64);
        while self.printed < cases.len() && open[self.printed] == 0 {
            let case = &cases[self.printed];
            let mut lines =
                if self.printed == 0 { vec![(self.table.head(), Tone::Faint)] } else { Vec::new() };
            lines.extend(self.table.rows(case));
            if self.verbose {
                let stories = case.plays.iter().flat_map(|play| &play.story);
                lines.extend(stories.map(|line| (format!("    | {line}"), Tone::Faint)));
            }
            self.bar.suspend(|| lines.iter().try_for_each(|(line, tone)| say(&painted(line, *tone))))?;
            self.printed += 1;
        }
        Ok(())
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line in the terminal's colours, if it wants any.
pub(super) fn painted(line: &str, tone: Tone) -> String {
    let code = match tone {
        Tone::Plain => return line.to_owned(),
        _ if !has_colors() => return line.to_owned(),
        Tone::Faint => "2",
        Tone::Good => "32",
        Tone::Bad => "31",
    };
    format!("\u{1b}[{code}m{line}\u{1b}[0m")
}

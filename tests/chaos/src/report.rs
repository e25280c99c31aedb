//! What the judge says, as a table for people and a last line for scripts.

mod charge;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

pub use charge::Charge;

/// How many offenders of one kind are printed.
const SHOWN: usize = 20;

/// One offence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// What it is.
    pub charge: Charge,
    /// Who and how, with ids.
    pub what: String,
}

/// The judgement of a round.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Faults that were made.
    pub faults: usize,
    /// Runs accepted.
    pub runs: usize,
    /// Ends by stop reason.
    pub ended: BTreeMap<String, usize>,
    /// Runs that wait for a person.
    pub waiting: usize,
    /// Effects.
    pub effects: usize,
    /// Requests to tools.
    pub requests: usize,
    /// Effects that nobody knew of for a while, by how they were settled.
    pub uncertain: BTreeMap<&'static str, usize>,
    /// Requests of servers that had been stopped, which the world refused.
    pub late_and_refused: usize,
    /// Milliseconds from a server's death to its runs' next owners.
    pub takeovers: Vec<u64>,
    /// The longest silence of each run that waited for nobody, in milliseconds.
    pub silences: Vec<u64>,
    /// What was found.
    pub offences: Vec<Offence>,
}

impl Report {
    /// Nothing was found.
    #[must_use]
    pub fn is_green(&self) -> bool {
        self.offences.is_empty()
    }

    /// Names of the kinds of offences that were found, each once.
    #[must_use]
    pub fn red(&self) -> Vec<String> {
        let found = Charge::ALL.into_iter().filter(|charge| self.count(*charge) > 0);
        found.map(|charge| charge.name().to_owned()).collect()
    }

    /// How many offences of a kind.
    #[must_use]
    pub fn count(&self, charge: Charge) -> usize {
        self.offences.iter().filter(|offence| offence.charge == charge).count()
    }

    /// Adds an offence.
    pub fn charge(&mut self, charge: Charge, what: impl Into<String>) {
        self.offences.push(Offence { charge, what: what.into() });
    }

    /// Effects that nobody knew of for a while.
    #[must_use]
    pub fn uncertain(&self) -> usize {
        self.uncertain.values().sum()
    }

    /// The table, and every offender (of one kind at most 20).
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        let mut row = |name: &str, value: String| {
            // Writing into a string doesn't fail.
            let _ = writeln!(table, "{name:<36} {value}");
        };
        row("runs accepted", self.runs.to_string());
        row("runs ended", counted(self.ended.iter().map(|(reason, n)| (reason.as_str(), *n))));
        row("runs that wait for a person", self.waiting.to_string());
        row("requests to tools", self.requests.to_string());
        row("effects", self.effects.to_string());
        row("uncertain effects, and who settled", counted(self.uncertain.iter().map(|(how, n)| (*how, *n))));
        row("late requests of stopped servers", format!("{}, refused", self.late_and_refused));
        row("takeover, ms", quantiles(&self.takeovers));
        row("longest silence of a run, ms", quantiles(&self.silences));
        for charge in Charge::ALL {
            row(charge.words(), self.count(charge).to_string());
        }
        for charge in Charge::ALL {
            let offences: Vec<&Offence> = self.offences.iter().filter(|o| o.charge == charge).collect();
            for offence in offences.iter().take(SHOWN) {
                row(&format!("! {}", charge.words()), offence.what.clone());
            }
            if offences.len() > SHOWN {
                row(&format!("! {}", charge.words()), format!("and {} more", offences.len() - SHOWN));
            }
        }
        table
    }

    /// The last line.
    #[must_use]
    pub fn last_line(&self) -> String {
        let [lost, repeated, stale] = [Charge::Lost, Charge::Repeated, Charge::Stale].map(|c| self.count(c));
        let (faults, runs, uncertain) = (self.faults, self.runs, self.uncertain());
        format!(
            "chaos: {faults} faults, {runs} runs, {lost} lost, {repeated} repeated, {stale} stale, {uncertain} uncertain"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.table(), self.last_line())
    }
}

fn counted<'c>(counts: impl Iterator<Item = (&'c str, usize)>) -> String {
    let counts: Vec<(&str, usize)> = counts.collect();
    let total: usize = counts.iter().map(|(_, n)| n).sum();
    let each: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
    if each.is_empty() { total.to_string() } else { format!("{total}: {}", each.join(", ")) }
}

fn quantiles(values: &[u64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| sorted.get((sorted.len().saturating_sub(1) * percent).div_ceil(100)).copied();
    match (at(50), at(99), sorted.last()) {
        (Some(middle), Some(high), Some(most)) => {
            format!("p50 {middle}, p99 {high}, most {most} (of {})", sorted.len())
        }
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_and_the_offenders() {
        let mut report = Report { faults: 3, runs: 7, ..Report::default() };
        report.uncertain.insert("lookup", 2);
        assert!(report.is_green());
        assert_eq!(report.last_line(), "chaos: 3 faults, 7 runs, 0 lost, 0 repeated, 0 stale, 2 uncertain");
        report.charge(Charge::Lost, "run_1");
        assert!(!report.is_green());
        assert_eq!(report.last_line(), "chaos: 3 faults, 7 runs, 1 lost, 0 repeated, 0 stale, 2 uncertain");
        assert!(report.table().contains("! runs lost                          run_1"), "{}", report.table());
    }

    #[test]
    fn quantiles_of_few_and_many() {
        assert_eq!(quantiles(&[]), "none");
        assert_eq!(quantiles(&[5]), "p50 5, p99 5, most 5 (of 1)");
        assert_eq!(quantiles(&(0..=100).collect::<Vec<u64>>()), "p50 50, p99 99, most 100 (of 101)");
    }
}

//! Understands a customer's letter, as far as a clerk with a few rules can.

/// What a customer wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Letter {
    /// The address in `From:`.
    pub(super) from: String,
    pub(super) wish: Wish,
}

/// What the customer wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Order { sku: String, quantity: Quantity, by_mail: bool },
    Refund { order_id: i64, amount_cents: i64 },
    Questions { sku: Option<String>, order_id: Option<i64> },
}

/// How many, and the very word if it was no figure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) count: i64,
    pub(super) word: Option<String>,
}

const WORDS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

impl Letter {
    /// Reads a letter: mail headers, an empty line, plain text.
    pub(super) fn read(letter: &str) -> Self {
        let (headers, body) = letter.split_once("\n\n").unwrap_or(("", letter));
        let from = headers.lines().find_map(|line| line.strip_prefix("From:")).unwrap_or_default();
        Self { from: from.trim().to_owned(), wish: Wish::read(body) }
    }
}

impl Wish {
    fn read(body: &str) -> Self {
        let words: Vec<&str> =
            body.split_whitespace().map(|word| word.trim_matches(|c: char| ".,!?()\"".contains(c))).collect();
        let lower = body.to_lowercase();
        let order_id = words.iter().find_map(|word| word.strip_prefix('#')?.parse().ok());
        let goods = words.iter().position(|word| is_sku(word));
        let sku = goods.map(|at| words[at].to_owned());
        let amount_cents = words.iter().find_map(|word| cents(word));
        if let (true, Some(order_id), Some(amount_cents)) = (lower.contains("refund"), order_id, amount_cents)
        {
            return Self::Refund { order_id, amount_cents };
        }
        let quantity = goods.and_then(|at| words[..at].iter().rev().find_map(|word| Quantity::read(word)));
        match (sku, quantity) {
            (Some(sku), Some(quantity)) if !lower.contains("in stock") => {
                Self::Order { sku, quantity, by_mail: lower.contains("by mail") }
            }
            (sku, _) => Self::Questions { sku, order_id },
        }
    }
}

impl Quantity {
    fn read(word: &str) -> Option<Self> {
        if let Ok(count) = word.parse() {
            return Some(Self { count, word: None });
        }
        let lower = word.to_lowercase();
        let at = WORDS.iter().position(|known| *known == lower)?;
        Some(Self { count: i64::try_from(at).ok()? + 1, word: Some(lower) })
    }
}

/// Three letters, a hyphen, two or three figures.
fn is_sku(word: &str) -> bool {
    let Some((kind, number)) = word.split_once('-') else { return false };
    kind.len() == 3
        && kind.bytes().all(|b| b.is_ascii_uppercase())
        && (2..=3).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
}

/// `129.00` as 12900.
fn cents(word: &str) -> Option<i64> {
    let (whole, rest) = word.split_once('.')?;
    if rest.len() != 2 {
        return None;
    }
    Some(whole.parse::<i64>().ok()?.checked_mul(100)? + rest.parse::<i64>().ok()?)
}

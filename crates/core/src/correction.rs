//! What providers count, against what was estimated: their own word corrects the next estimate.

use serde::{Deserialize, Serialize};

/// No correction, in permille.
pub const EXACT: u32 = 1_000;
/// The least that an estimate is corrected to, in permille.
const LEAST: u64 = 250;
/// The most.
const MOST: u64 = 4_000;
/// Both counts are taken as so much larger before they are compared. What a provider adds to every request doesn't grow
/// with it: a short request must not make a long one look many times its size.
const DAMPING: u64 = 500;

/// How a model's tokens compare with their estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// The provider that told.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// Told to estimated, in permille.
    pub permille: u32,
}

impl Correction {
    /// What an estimate for that model is corrected by; nothing is known of one that wasn't asked last.
    pub fn permille_for(known: Option<&Self>, provider: &str, model: &str) -> u32 {
        let of_it = known.filter(|known| known.provider == provider && known.model == model);
        of_it.map_or(EXACT, |known| known.permille)
    }

    /// Whether so many told tokens can be those of a request that was counted as `counted` here. Where they are far fewer,
    /// the provider tells of a part of it, such as what its cache didn't have, or of nothing.
    pub fn is_believable(counted: u64, told: u64) -> bool {
        told.saturating_mul(u64::from(EXACT)) >= counted.saturating_mul(LEAST)
    }

    /// After a reply of that model, whose provider told `told` tokens of what was counted as `counted` here. It rises at
    /// once and falls by half the way, from the plain count at first: too low an estimate does more harm.
    #[must_use]
    pub fn after(known: Option<&Self>, provider: &str, model: &str, counted: u64, told: u64) -> Self {
        let (told, counted) = (told.saturating_add(DAMPING), counted.saturating_add(DAMPING));
        let ratio = u128::from(told) * u128::from(EXACT) / u128::from(counted);
        let now = u64::try_from(ratio).unwrap_or(MOST).clamp(LEAST, MOST);
        let before = u64::from(Self::permille_for(known, provider, model));
        let permille = if now >= before { now } else { now.midpoint(before) };
        let permille = u32::try_from(permille).unwrap_or(EXACT);
        Self { provider: provider.to_owned(), model: model.to_owned(), permille }
    }
}

/// Tokens as they are expected to be told, rounded up.
pub fn corrected(tokens: u64, permille: u32) -> u64 {
    let all = (u128::from(tokens) * u128::from(permille)).div_ceil(u128::from(EXACT));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The most tokens that are no more than `tokens` once they are corrected.
pub fn before_correction(tokens: u64, permille: u32) -> u64 {
    let all = u128::from(tokens) * u128::from(EXACT) / u128::from(permille.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(known: Option<&Correction>, counted: u64, told: u64) -> Correction {
        Correction::after(known, "main", "m", counted, told)
    }

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        let first = after(None, 9_500, 19_500);
        assert_eq!(first.permille, 2_000);
        let lower = after(Some(&first), 9_500, 9_500);
        assert_eq!(lower.permille, 1_500);
        assert_eq!(after(Some(&lower), 9_500, 19_500).permille, 2_000);
        assert_eq!(after(None, 1_000_000, 0).permille, 625);
        assert_eq!([250, 249].map(|told| Correction::is_believable(1_000, told)), [true, false]);
        assert_eq!(after(None, 0, u64::MAX).permille, 4_000);
    }

    #[test]
    fn a_short_request_says_little() {
        assert_eq!(after(None, 10, 60).permille, 1_098);
    }

    #[test]
    fn it_holds_for_the_model_that_told() {
        let known = after(None, 9_500, 19_500);
        let of = |provider, model| Correction::permille_for(Some(&known), provider, model);
        assert_eq!([of("main", "m"), of("alt", "m"), of("main", "n")], [2_000, 1_000, 1_000]);
        assert_eq!(Correction::after(Some(&known), "alt", "m", 9_500, 9_500).permille, 1_000);
    }

    proptest! {
        #[test]
        fn what_fits_before_fits_corrected(tokens in 0_u64..1 << 40, permille in 250_u32..4_000) {
            let before = before_correction(tokens, permille);
            prop_assert!(corrected(before, permille) <= tokens);
            prop_assert!(corrected(before + 1, permille) > tokens);
        }
    }
}

//! Names that tools and their inputs may have.

use std::collections::BTreeSet;

/// Longest name of a tool.
const LONGEST: usize = 64;

/// Names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A legal name made of `text` that nothing else has.
    pub(super) fn unique(&mut self, text: &str) -> String {
        let plain = legal(text);
        let mut name = plain.clone();
        let mut number = 1;
        while !self.0.insert(name.clone()) {
            number += 1;
            let end = format!("_{number}");
            name = format!("{}{end}", head(&plain, LONGEST - end.len()));
        }
        name
    }
}

/// `text` with nothing in it but letters, digits, `-` and single `_`.
pub(super) fn legal(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '-' {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = head(name.trim_end_matches('_'), LONGEST);
    if name.is_empty() { "unnamed".into() } else { name.to_owned() }
}

fn head(text: &str, most: usize) -> &str {
    // Nothing but ASCII.
    &text[..text.len().min(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_unique() {
        for (text, wanted) in [
            ("listPets", "listPets"),
            ("pets/list (all)", "pets_list_all"),
            ("get_/pets/{petId}", "get_pets_petId"),
            ("__a__b", "a_b"),
            ("größe", "gr_e"),
            ("../..", "unnamed"),
        ] {
            assert_eq!(legal(text), wanted);
        }
        let mut names = Names::default();
        let long = "x".repeat(80);
        assert_eq!(["a b", "a_b", "a.b"].map(|text| names.unique(text)), ["a_b", "a_b_2", "a_b_3"]);
        assert_eq!((names.unique(&long).len(), names.unique(&long).ends_with("x_2")), (64, true));
    }
}

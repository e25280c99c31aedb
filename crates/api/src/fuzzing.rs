//! What the fuzz targets feed to the API's parsers, and what must hold whatever that is. A test feeds them too, with seeds that
//! were changed at random.

mod bodies;
mod heads;
#[cfg(test)]
mod tests;

pub use bodies::requests;
pub use heads::heads;

use crate::problem::Problem;

/// Longest message of a fault, in characters.
const LONGEST_MESSAGE: usize = 500;
/// Longest pointer of one.
const LONGEST_POINTER: usize = 2000;
/// Most faults that one answer names.
const MOST_FAULTS: usize = 2000;

/// A refusal is a problem that the document knows, says what is wrong where, and is fit to be sent.
fn check_refusal(problem: &Problem) {
    assert!([400, 413, 415, 422].contains(&problem.status()), "{problem:?}");
    let document = problem.document("req_1");
    assert_eq!(answerable_core::json::find_unfit(&document), None, "{document}");
    let errors = document["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(errors.len() <= MOST_FAULTS, "{} faults", errors.len());
    for error in errors {
        let (pointer, message) = (error["pointer"].as_str(), error["message"].as_str());
        let (pointer, message) = (pointer.unwrap_or_default(), message.unwrap_or_default());
        assert!(pointer.is_empty() || pointer.starts_with('/'), "{error}");
        assert!(pointer.chars().count() <= LONGEST_POINTER, "{error}");
        assert!((1..=LONGEST_MESSAGE).contains(&message.chars().count()), "{error}");
    }
}

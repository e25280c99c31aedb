//! The routes are those of the document, both ways.

use std::collections::BTreeSet;

use answerable_testkit::Document;

#[test]
fn the_route_table_is_the_document() {
    let served: BTreeSet<(String, String)> = answerable_api::operations()
        .into_iter()
        .map(|(method, path)| (method.as_str().to_owned(), path.to_owned()))
        .collect();
    let written: BTreeSet<(String, String)> = Document::load()
        .operations()
        .into_iter()
        .map(|(method, path)| (method.to_uppercase(), path))
        .collect();
    let not_served: Vec<_> = written.difference(&served).collect();
    let not_written: Vec<_> = served.difference(&written).collect();
    assert!(
        not_served.is_empty() && not_written.is_empty(),
        "not served: {not_served:?}; not written: {not_written:?}"
    );
    assert_eq!(answerable_api::operations().len(), served.len(), "a route stands twice in the table");
}

//! A page of docs/, cut into sections and blocks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The section whose files and commands come before those of each other one.
const PREAMBLE: &str = "The examples";

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) language: String,
    pub(super) title: Option<String>,
    pub(super) text: String,
}

impl Block {
    /// Whether it is typed in.
    pub(super) fn is_run(&self) -> bool {
        self.language == "sh" && self.title.is_none()
    }
}

/// A section, and what comes before it.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) preamble: Vec<Block>,
    pub(super) blocks: Vec<Block>,
}

/// A section of a page.
///
/// # Panics
/// When the page has none of this heading.
pub(super) fn section(page: &str, heading: &str) -> Section {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let mut sections = sections(&fs::read_to_string(path).expect("the page"));
    let preamble = sections.remove(PREAMBLE).expect("the preamble");
    let blocks = sections.remove(heading).unwrap_or_else(|| panic!("{page} has no section {heading:?}"));
    Section { preamble, blocks }
}

/// The blocks under each heading of the second level.
fn sections(page: &str) -> BTreeMap<String, Vec<Block>> {
    let mut sections: BTreeMap<String, Vec<Block>> = BTreeMap::new();
    let (mut heading, mut open) = (String::new(), None::<Block>);
    for line in page.lines() {
        if let Some(block) = &mut open {
            if line == "```" {
                sections.entry(heading.clone()).or_default().extend(open.take());
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if let Some(info) = line.strip_prefix("```") {
            let (language, title) = info.split_once(" title=").unwrap_or((info, ""));
            let title = (!title.is_empty()).then(|| title.trim_matches('"').to_owned());
            open = Some(Block { language: language.to_owned(), title, text: String::new() });
        } else if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut heading);
        }
    }
    assert!(open.is_none(), "a block is not closed");
    sections
}

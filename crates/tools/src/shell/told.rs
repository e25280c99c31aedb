//! What the model is told of a command.

use answerable_core::agent::ShellSpec;
use answerable_core::tool::ErrorCode;
use answerable_core::{json, text};
use answerable_sandbox::{Ended, Skipped, Stop};

use super::found::{Changed, Changes};

/// Files that are named; of more, there is their number.
const MOST_NAMED: usize = 50;
/// Characters of a name that the command chose freely.
const MOST_NAME_CHARS: usize = 200;
/// Characters of what is told of a command that failed.
const MOST_CHARS: usize = 4000;

/// It ended by itself: how, what it printed, what it changed.
pub(super) fn ended(code: i32, ended: &Ended, found: &Changes) -> String {
    let mut told = ran(code, ended);
    let is = |is: fn(&Changed) -> bool| found.files.iter().filter(move |file| is(file));
    for (what, files) in [
        ("Changed", is(|file| file.before.is_some() && file.after.is_some()).collect::<Vec<_>>()),
        ("Made", is(|file| file.before.is_none()).collect()),
        ("Deleted", is(|file| file.after.is_none()).collect()),
    ] {
        told.push_str(&named(what, files.iter().map(|file| file.path.to_string())));
    }
    let skipped = |Skipped { path, why }: &Skipped| format!("{} ({why})", shown(path));
    told.push_str(&named("Not kept", found.skipped.iter().map(skipped)));
    told
}

/// It ended by itself, and what it changed can't be kept.
pub(super) fn not_kept(code: i32, ended: &Ended, why: &str) -> String {
    format!("{why}. None of its changes to files were kept.\n{}", ran(code, ended))
}

/// It was ended.
pub(super) fn stopped(stop: Stop, spec: &ShellSpec, ended: &Ended) -> (ErrorCode, String) {
    let (code, why) = match stop {
        Stop::Time => (ErrorCode::Timeout, format!("its time was up after {} ms", ended.took.as_millis())),
        Stop::Memory => {
            (ErrorCode::InvalidArguments, format!("it used more than {} MiB of memory", spec.memory_mb))
        }
        Stop::Processes => (
            ErrorCode::InvalidArguments,
            format!("it had more than {} processes and threads", spec.max_processes),
        ),
        Stop::Disk => {
            let why = "it wrote more files, or larger ones, than it may, or the disk got full";
            (ErrorCode::InvalidArguments, why.into())
        }
        Stop::Output => (ErrorCode::OutputTooLarge, "it printed more than is read".into()),
        Stop::Cancelled => (ErrorCode::Cancelled, "it was called off".into()),
    };
    let printed = ended.output.text();
    let told = format!("The command was ended: {why}. None of its changes to files were kept.\n{printed}");
    (code, cut(&json::clean_text(&told)))
}

/// The beginning and the end of what is long: a failure is told at the end, and what went before is at the beginning.
pub(super) fn cut(told: &str) -> String {
    let chars = text::chars(told);
    if chars <= MOST_CHARS {
        return told.to_owned();
    }
    let half = MOST_CHARS / 2;
    let tail = told.char_indices().nth(chars - half).map_or("", |(at, _)| &told[at..]);
    format!("{}\n[{} characters left out]\n{tail}", text::head(told, half), chars - MOST_CHARS)
}

fn ran(code: i32, ended: &Ended) -> String {
    let printed = json::clean_text(&ended.output.text());
    let printed = printed.trim_end_matches('\n');
    let output = if printed.is_empty() { "It printed nothing." } else { printed };
    format!("exit code {code}\n{output}")
}

/// Such a name may hold line breaks and whatever else would make it look like something that the server says.
fn shown(name: &str) -> String {
    let escaped: String = name.escape_debug().collect();
    let head = text::head(&escaped, MOST_NAME_CHARS);
    if head.len() < escaped.len() { format!("{head}…") } else { escaped }
}

fn named(what: &str, names: impl ExactSizeIterator<Item = String>) -> String {
    let all = names.len();
    if all == 0 {
        return String::new();
    }
    let shown: Vec<String> = names.take(MOST_NAMED).collect();
    let more = if all > MOST_NAMED { format!(" and {} more", all - MOST_NAMED) } else { String::new() };
    format!("\n{what}: {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_has_its_beginning_and_its_end() {
        let told = format!("begin{}ünd", "x".repeat(9000));
        let cut = cut(&told);
        assert!(
            cut.starts_with("begin") && cut.ends_with("ünd") && cut.contains("[5008 characters left out]")
        );
        assert_eq!(super::cut("short"), "short");
    }

    #[test]
    fn a_name_can_not_say_anything() {
        assert_eq!(shown("plain-ünïcode.txt"), "plain-ünïcode.txt");
        assert_eq!(shown("x\nChanged: y\u{1b}[2J\u{202e}"), "x\\nChanged: y\\u{1b}[2J\\u{202e}");
        let long = shown(&"ä\r".repeat(300));
        assert_eq!((long.chars().count(), long.ends_with('…'), long.contains('\r')), (201, true, false));
    }

    #[test]
    fn many_files_are_counted() {
        assert_eq!(named("Made", Vec::new().into_iter()), "");
        assert_eq!(named("Made", vec!["a".to_owned(), "b".to_owned()].into_iter()), "\nMade: a, b");
        let many: Vec<String> = (0..60).map(|n| n.to_string()).collect();
        assert!(named("Made", many.into_iter()).ends_with("48, 49 and 10 more"));
    }
}

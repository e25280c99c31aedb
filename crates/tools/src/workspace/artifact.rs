//! `read_artifact`: a part of a long output.

use answerable_core::id::ArtifactId;
use answerable_core::text;
use answerable_core::tool::{Attempt, ErrorCode, Output};

use super::{Done, One, not_asked, refused};

impl One<'_> {
    pub(super) async fn read_artifact(&self) -> Done {
        let named = self.text("artifact_id")?;
        let missing =
            || refused(ErrorCode::NotFound, format!("there is no artifact {}", text::head(named, 100)));
        let id: ArtifactId = named.parse().map_err(|_| missing())?;
        let most = self.call.tool.output.max_chars;
        let offset = self.number("offset")?.unwrap_or(0);
        let limit = self.number("limit")?.unwrap_or(most).min(most);
        let (tenant, run) = (self.call.tenant_id, self.call.run_id);
        let found = self.files.artifact(tenant, run, id).await.map_err(not_asked)?;
        let (media_type, content) = found.ok_or_else(missing)?;
        let whole = match std::str::from_utf8(&content) {
            Ok(whole) if !whole.contains('\0') => whole,
            _ => {
                let what = format!("{id} is no text: {media_type}, {} bytes", content.len());
                return Err(refused(ErrorCode::InvalidArguments, what));
            }
        };
        part(whole, offset, limit)
            .map(|output| Attempt::Succeeded(output).into())
            .map_err(|words| refused(ErrorCode::InvalidArguments, words))
    }
}

/// Code points of a text, and below them which they are: that isn't counted.
fn part(whole: &str, offset: usize, limit: usize) -> Result<Output, String> {
    let all = text::chars(whole);
    if offset > all {
        return Err(format!("it has {all} characters; offset {offset} is beyond its end"));
    }
    let rest = &whole[text::head(whole, offset).len()..];
    let shown = text::head(rest, limit);
    let (chars, end) = (text::chars(shown), offset + text::chars(shown));
    let next = if end < all { format!("; the next is offset {end}") } else { String::new() };
    let content = format!("{shown}\n[characters {offset} to {end} of {all}{next}]");
    Ok(Output { content, chars, truncated: false, artifact_id: None, too_large: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_meet_and_end() {
        let whole = "größer😀!";
        let first = part(whole, 0, 4).expect("a part");
        assert_eq!(first.content, "größ\n[characters 0 to 4 of 8; the next is offset 4]");
        let last = part(whole, 4, 100).expect("a part");
        assert_eq!(last.content, "er😀!\n[characters 4 to 8 of 8]");
        assert_eq!(part(whole, 8, 5).expect("the end").chars, 0);
        assert!(part(whole, 9, 5).is_err());
    }
}

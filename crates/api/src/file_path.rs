//! The workspace and the file that a request's path names. The path is read as it was sent: a name that is written with an
//! encoded slash is refused, not taken for two.

use answerable_core::id::WorkspaceId;
use answerable_core::workspace::FilePath;
use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::problem::Problem;

const FILES: &str = "/files/";

/// A file of a workspace.
#[derive(Debug)]
pub(crate) struct FileName {
    /// The workspace.
    pub(crate) workspace_id: WorkspaceId,
    /// Where the file is within it.
    pub(crate) path: FilePath,
}

impl<S: Send + Sync> FromRequestParts<S> for FileName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let path = parts.uri.path();
        let (before, rest) = path.split_once(FILES).ok_or_else(Problem::not_found)?;
        let id = before.rsplit('/').next().unwrap_or_default();
        let workspace_id = id.parse().map_err(|_| Problem::not_found())?;
        Ok(Self { workspace_id, path: read(rest)? })
    }
}

fn read(rest: &str) -> Result<FilePath, Problem> {
    let wrong = |words: String| Problem::invalid_at("/path/path", words);
    let names: Result<Vec<String>, Problem> = rest
        .split('/')
        .map(|name| match percent_decode_str(name).decode_utf8() {
            Ok(name) if name.contains('/') => Err(wrong("a name may not hold a slash".into())),
            Ok(name) if name.is_empty() => Err(wrong("no name may be empty".into())),
            Ok(name) => Ok(name.into_owned()),
            Err(_) => Err(wrong("must be UTF-8".into())),
        })
        .collect();
    FilePath::parse(&names?.join("/")).map_err(|fault| wrong(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_one_by_one() {
        for (sent, path) in [
            ("a.txt", "a.txt"),
            ("notes/gr%C3%B6%C3%9Fer%20.md", "notes/größer .md"),
            ("100%25", "100%"),
            ("a+b", "a+b"),
            ("%252e%252e", "%2e%2e"),
        ] {
            assert_eq!(read(sent).expect(sent).as_str(), path);
        }
        for sent in [
            "", "/a", "a//b", "a/", "..", "a/../b", "%2e%2e/a", "a%2Fb", "%2Fa", "a%00b", "a%5Cb", "%FF",
            "a%0Ab",
        ] {
            assert!(read(sent).is_err(), "{sent}");
        }
    }
}

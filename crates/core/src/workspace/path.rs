//! Paths of files: the one place that says which there are. A path names a place within its workspace or it is none.

use std::fmt;

/// Bytes that a path may have.
pub const MAX_PATH_BYTES: usize = 1024;
/// Bytes that a name between two slashes may have, as in most file systems.
pub const MAX_SEGMENT_BYTES: usize = 255;
/// Names that a path may have.
pub const MAX_DEPTH: usize = 32;

/// Where a file is within its workspace: names with slashes between them, without one at the front.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(String);

/// Why a text is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Nothing, or nothing but the root.
    #[error("a path names a file, such as notes/a.txt")]
    Empty,
    /// Over [`MAX_PATH_BYTES`].
    #[error("a path has at most {MAX_PATH_BYTES} bytes")]
    TooLong,
    /// Over [`MAX_SEGMENT_BYTES`].
    #[error("a name in a path has at most {MAX_SEGMENT_BYTES} bytes")]
    NameTooLong,
    /// Over [`MAX_DEPTH`].
    #[error("a path has at most {MAX_DEPTH} names")]
    TooDeep,
    /// Two slashes in a row, or one at the end.
    #[error("a path has a name between any two slashes and after the last one")]
    EmptyName,
    /// `.` or `..`.
    #[error(
        "a path may not hold . or .. as a name: it begins at the workspace's root and leads straight to the file"
    )]
    Dots,
    /// A backslash, NUL or another control character.
    #[error("a path may hold neither backslashes nor control characters")]
    Character,
}

impl FilePath {
    /// Reads a path; one slash at the front means the workspace's root, which it begins at in any case.
    ///
    /// # Errors
    /// It is no path.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        let path = text.strip_prefix('/').unwrap_or(text);
        if path.is_empty() {
            return Err(PathFault::Empty);
        }
        check_whole(path)?;
        path.split('/').try_for_each(check_name)?;
        Ok(Self(path.to_owned()))
    }

    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders that it is in, the outermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads what paths shall begin with: any text that a path can begin with. `.` and `/` are the root, where all begin.
///
/// # Errors
/// No path begins so.
pub fn read_prefix(text: &str) -> Result<&str, PathFault> {
    let prefix = match text {
        "." | "./" => "",
        _ => text.strip_prefix('/').unwrap_or(text),
    };
    if prefix.is_empty() {
        return Ok(prefix);
    }
    check_whole(prefix)?;
    // The last name may go on.
    let (folders, _) = prefix.rsplit_once('/').unwrap_or_default();
    if folders.is_empty() && prefix.starts_with('/') {
        return Err(PathFault::EmptyName);
    }
    if !folders.is_empty() {
        folders.split('/').try_for_each(check_name)?;
    }
    if prefix.ends_with("/..") || prefix == ".." { Err(PathFault::Dots) } else { Ok(prefix) }
}

fn check_whole(path: &str) -> Result<(), PathFault> {
    if path.len() > MAX_PATH_BYTES {
        return Err(PathFault::TooLong);
    }
    if path.chars().any(|c| c == '\\' || c.is_control()) {
        return Err(PathFault::Character);
    }
    if path.split('/').count() > MAX_DEPTH { Err(PathFault::TooDeep) } else { Ok(()) }
}

fn check_name(name: &str) -> Result<(), PathFault> {
    match name {
        "" => Err(PathFault::EmptyName),
        "." | ".." => Err(PathFault::Dots),
        name if name.len() > MAX_SEGMENT_BYTES => Err(PathFault::NameTooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_a_path_and_what_is_not() {
        let deep = vec!["a"; MAX_DEPTH].join("/");
        let long = format!("{}/b", "a".repeat(MAX_SEGMENT_BYTES));
        for (text, path) in [
            ("a.txt", "a.txt"),
            ("/a.txt", "a.txt"),
            ("notes/größer 😀.md", "notes/größer 😀.md"),
            ("...", "..."),
            (".hidden/..x/x..", ".hidden/..x/x.."),
            ("~root", "~root"),
            ("C:", "C:"),
            ("%2e%2e/a", "%2e%2e/a"),
            (&deep, &deep),
            (&long, &long),
        ] {
            assert_eq!(FilePath::parse(text).as_ref().map(FilePath::as_str), Ok(path), "{text}");
        }
        for (text, fault) in [
            ("", PathFault::Empty),
            ("/", PathFault::Empty),
            ("//", PathFault::EmptyName),
            ("//a", PathFault::EmptyName),
            ("a//b", PathFault::EmptyName),
            ("a/", PathFault::EmptyName),
            ("file:///etc/passwd", PathFault::EmptyName),
            (".", PathFault::Dots),
            ("..", PathFault::Dots),
            ("/..", PathFault::Dots),
            ("../a", PathFault::Dots),
            ("a/../b", PathFault::Dots),
            ("./a", PathFault::Dots),
            ("a/.", PathFault::Dots),
            ("..\\a", PathFault::Character),
            ("a\0b", PathFault::Character),
            ("a\nb", PathFault::Character),
            ("a\u{85}b", PathFault::Character),
            (&format!("{deep}/a"), PathFault::TooDeep),
            (&format!("a{long}"), PathFault::NameTooLong),
            (&"a/".repeat(MAX_PATH_BYTES), PathFault::TooLong),
        ] {
            assert_eq!(FilePath::parse(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn what_paths_may_begin_with() {
        for (text, prefix) in
            [("", ""), ("/", ""), (".", ""), ("./", ""), ("/no", "no"), ("notes/", "notes/"), ("a/.", "a/.")]
        {
            assert_eq!(read_prefix(text), Ok(prefix), "{text}");
        }
        for text in
            ["..", "../", "a/..", "a/../b", "//", "a//", "a\\", "a\0", &"a".repeat(MAX_PATH_BYTES + 1)]
        {
            assert!(read_prefix(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_path_knows_its_folders() {
        let path = FilePath::parse("/a/b/c.txt").expect("a path");
        assert_eq!(path.folders().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(FilePath::parse("c.txt").expect("a path").folders().count(), 0);
    }

    /// Texts that come near to paths, hostile ones too.
    fn near_paths() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/".to_owned()),
            Just("..".to_owned()),
            Just(".".to_owned()),
            Just("\\".to_owned()),
            Just("\0".to_owned()),
            "[a-z]{1,3}",
            "\\PC{0,4}",
            Just("a".repeat(200)),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_path_stays_within_the_folder_that_it_is_joined_to(text in near_paths()) {
            if let Ok(path) = FilePath::parse(&text) {
                let names: Vec<_> = Path::new(path.as_str()).components().collect();
                let all_normal = names.iter().all(|name| matches!(name, Component::Normal(_)));
                prop_assert!(all_normal && !names.is_empty() && names.len() <= MAX_DEPTH);
                let joined = Path::new("/base/of/it").join(path.as_str());
                prop_assert!(joined.starts_with("/base/of/it"));
                prop_assert!(path.as_str().len() <= MAX_PATH_BYTES && !path.as_str().contains(['\\', '\0']));
            }
        }

        #[test]
        fn a_path_is_read_as_itself(text in near_paths()) {
            if let Ok(path) = FilePath::parse(&text) {
                let from_root = FilePath::parse(&format!("/{path}"));
                prop_assert_eq!(from_root, Ok(path.clone()));
                prop_assert_eq!(FilePath::parse(path.as_str()), Ok(path));
            }
        }

        #[test]
        fn whatever_a_path_begins_with_is_a_prefix(text in near_paths(), cut in 0_usize..64) {
            if let Ok(path) = FilePath::parse(&text) {
                let head: String = path.as_str().chars().take(cut).collect();
                // A name that begins with dots is cut into them.
                prop_assume!(!head.ends_with("..") && head != "." && head != "./");
                prop_assert_eq!(read_prefix(&head), Ok(head.as_str()));
            }
        }
    }
}

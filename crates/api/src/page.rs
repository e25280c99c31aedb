//! Pages of lists: `limit`, `cursor`, `next_cursor`.

use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use http::request::Parts;
use serde::Serialize;

use crate::moment;
use crate::problem::{Answer, Problem};
use crate::query::Params;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 200;
const MAX_CURSOR: usize = 2048;

/// What page is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Rows at most.
    pub(crate) limit: i64,
    cursor: Option<String>,
}

/// A page as it is answered.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

impl Page {
    /// Rows that it has at most.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Rows to ask the store for: one more than is shown tells whether there is a next page.
    pub(crate) fn fetch(&self) -> i64 {
        self.limit + 1
    }

    /// The place after which the page begins, as the list named `list` gave it. A list's name holds whatever its places
    /// depend on, so that no list takes another's.
    pub(crate) fn after(&self, list: &str) -> Result<Option<&str>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let place = cursor.strip_prefix(list).and_then(|rest| rest.strip_prefix('\n'));
        place.map(Some).ok_or_else(not_ours)
    }

    /// The same as a number or another thing that can be read.
    pub(crate) fn after_parsed<T: std::str::FromStr>(&self, list: &str) -> Result<Option<T>, Problem> {
        self.after(list)?.map(|place| place.parse().map_err(|_| not_ours())).transpose()
    }

    /// The same for lists of named things: the time that one was made, and its name.
    pub(crate) fn after_named(&self, list: &str) -> Result<Option<(DateTime<Utc>, String)>, Problem> {
        let Some(place) = self.after(list)? else { return Ok(None) };
        let (micros, name) = place.split_once(' ').ok_or_else(not_ours)?;
        let at = micros.parse().ok().and_then(moment::from_micros).ok_or_else(not_ours)?;
        Ok(Some((at, name.to_owned())))
    }

    /// The place of a named thing.
    pub(crate) fn named_place(at: DateTime<Utc>, name: &str) -> String {
        format!("{} {name}", at.timestamp_micros())
    }

    /// The answer with the rows that [`fetch`](Page::fetch) asked for.
    pub(crate) fn answer<R, T: Serialize>(
        &self,
        list: &str,
        mut rows: Vec<R>,
        place: impl Fn(&R) -> String,
        show: impl FnMut(R) -> T,
    ) -> Result<Answer, Problem> {
        let more = rows.len() > self.size();
        rows.truncate(self.size());
        let last = rows.last().filter(|_| more).map(place);
        self.answer_with_next(list, rows, last, show)
    }

    /// The answer with just these rows, and the place after which the next page begins.
    pub(crate) fn answer_with_next<R, T: Serialize>(
        &self,
        list: &str,
        rows: Vec<R>,
        next: Option<String>,
        show: impl FnMut(R) -> T,
    ) -> Result<Answer, Problem> {
        let next_cursor = next.map(|place| URL_SAFE_NO_PAD.encode(format!("{list}\n{place}")));
        Answer::ok(&List { data: rows.into_iter().map(show).collect(), next_cursor })
    }
}

/// A list that is always one page.
pub(crate) fn whole<T: Serialize>(data: Vec<T>) -> Result<Answer, Problem> {
    Answer::ok(&List { data, next_cursor: None })
}

fn not_ours() -> Problem {
    Problem::invalid_at("/query/cursor", "is no cursor of this list")
}

impl<S: Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = Params::from_request_parts(parts, state).await?;
        let limit = params.integer("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
        let cursor = match params.get("cursor") {
            Some(text) if text.len() > MAX_CURSOR => return Err(not_ours()),
            Some(text) => Some(decode(text).ok_or_else(not_ours)?),
            None => None,
        };
        Ok(Self { limit, cursor })
    }
}

fn decode(text: &str) -> Option<String> {
    let place = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    // PostgreSQL takes no NUL, and no list gives one.
    (!place.contains('\0')).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_its_own_cursors_alone() {
        let page = Page { limit: 2, cursor: decode(&URL_SAFE_NO_PAD.encode("threads\n77")) };
        assert_eq!(page.after_parsed::<i64>("threads").expect("its own"), Some(77));
        assert!(page.after("agents").is_err());
        assert!(page.after_parsed::<uuid::Uuid>("threads").is_err());
        assert_eq!(decode("none-of-yours!"), None);
        for place in ["-8000000000000000000 a", "9223372036854775807 a", "x a", "7"] {
            let page = Page { limit: 2, cursor: Some(format!("secrets\n{place}")) };
            assert!(page.after_named("secrets").is_err(), "{place}");
        }
    }
}

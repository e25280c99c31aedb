//! Checking a chain and telling of it.

use answerable_core::audit::{Chain, Head};
use serde_json::Value;

use crate::Failure;
use crate::timeline::printable;

/// A chain that is being checked.
pub(super) struct Verifying {
    chain: Chain,
    scope: Scope,
    /// What was noted of it before.
    noted: Option<Noted>,
    /// Whose it must be.
    owner: Option<Value>,
    first: Option<First>,
}

/// Where it may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// With its first entry; there may be none yet.
    Whole,
    /// With its first entry or, if a head was noted, anywhere: a file says nothing of what isn't in it.
    File,
    /// Anywhere: what was before is somebody else's to check.
    Part,
}

struct Noted {
    head: Head,
    was_met: bool,
}

/// Where the chain begins.
struct First {
    seq: i64,
    at: String,
}

impl Verifying {
    /// A chain from its first entry on; `owner`: whose it must be.
    pub(super) fn whole(noted: Option<Head>, owner: Option<Value>) -> Self {
        let noted = noted.map(|head| Noted { head, was_met: false });
        Self {
            chain: owned(Chain::default(), owner.as_ref()),
            scope: Scope::Whole,
            owner,
            noted,
            first: None,
        }
    }

    /// A chain in a file, or, where that is said or a head was noted, a part of one.
    pub(super) fn file(noted: Option<Head>, is_part: bool, owner: Option<Value>) -> Self {
        let scope = if is_part { Scope::Part } else { Scope::File };
        Self { scope, ..Self::whole(noted, owner) }
    }

    /// Takes the next entry, or says what is wrong with it.
    pub(super) fn take(&mut self, entry: &Value) -> Result<(), Failure> {
        if self.first.is_none() {
            self.begin(entry)?;
        }
        let name = named(entry);
        self.chain.check(entry).map_err(|fault| Failure::new(format!("{name} {fault}")))?;
        let head = self.chain.head();
        if let Some(noted) = self.noted.as_mut().filter(|noted| noted.head.seq == head.seq) {
            if noted.head.hash != head.hash {
                let told = format!("{name} has another hash than was noted: the record was written anew");
                return Err(Failure::new(told));
            }
            noted.was_met = true;
        }
        Ok(())
    }

    /// Settles where the chain begins.
    fn begin(&mut self, entry: &Value) -> Result<(), Failure> {
        let seq = entry.get("seq").and_then(Value::as_i64).unwrap_or_default();
        let at = entry.get("at").and_then(Value::as_str).unwrap_or("?").to_owned();
        self.first = Some(First { seq, at });
        if self.scope == Scope::Whole || seq <= 1 {
            return Ok(());
        }
        if self.scope == Scope::File && self.noted.is_none() {
            let told = "whether others were before it can't be seen here: say --part, or give a --head that was noted";
            return Err(Failure::new(format!("the file begins with entry {seq}; {told}")).undecided());
        }
        let hash = entry.get("prev_hash").and_then(Value::as_str).map(str::to_owned);
        let mut before = Head { seq: seq - 1, hash };
        if let Some(noted) = self.noted.as_mut().filter(|noted| noted.head.seq == before.seq) {
            before = noted.head.clone();
            noted.was_met = true;
        }
        self.chain = owned(Chain::going_on(before), self.owner.as_ref());
        Ok(())
    }

    /// What there is to say at the end.
    pub(super) fn end(&self) -> Result<String, Failure> {
        let head = self.chain.head();
        if let Some(noted) = self.noted.as_ref().filter(|noted| !noted.was_met) {
            let seq = noted.head.seq;
            return Err(match &self.first {
                Some(first) if first.seq > seq => {
                    Failure::new(format!("entry {seq}, which was noted, is before what is here")).undecided()
                }
                _ => Failure::new(format!(
                    "the record ends at entry {}, and entry {seq} was noted: the end is missing",
                    head.seq
                )),
            });
        }
        let (Some(first), Some(hash)) = (&self.first, &head.hash) else {
            return match self.scope {
                Scope::File => Err(Failure::new("there is no entry in the file to check").undecided()),
                Scope::Whole | Scope::Part => Ok("There is no entry.".to_owned()),
            };
        };
        let count = head.seq - first.seq + 1;
        let entries = if count == 1 { "entry holds" } else { "entries hold" };
        let mut told = format!("{count} {entries}, since {}", first.at);
        if first.seq > 1 {
            told.push_str(&format!("; it begins with entry {}", first.seq));
        }
        Ok(printable(&format!("{told}\nhead {}:{hash}", head.seq)))
    }
}

fn owned(chain: Chain, owner: Option<&Value>) -> Chain {
    match owner {
        Some(owner) => chain.owned_by(owner.clone()),
        None => chain,
    }
}

/// An entry as it is spoken of.
fn named(entry: &Value) -> String {
    let seq = entry.get("seq").map(Value::to_string).unwrap_or_default();
    let id = entry.get("id").and_then(Value::as_str).unwrap_or("without an id");
    printable(&format!("entry {seq} ({id})"))
}

#[cfg(test)]
mod tests {
    use answerable_core::audit::{Act, Action, Entry, Origin};
    use answerable_core::id::AuditId;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn chain(length: u128) -> Vec<Value> {
        let mut head = Head::default();
        let mut next = |n| {
            let act = Act::new(Action::SecretPut, format!("name{n}"), json!({}));
            let id = AuditId(Uuid::from_u128(n));
            let entry = Entry::after(&head, id, "2026-01-02T03:04:05.678Z", None, &Origin::default(), &act);
            head = entry.head();
            entry.to_json()
        };
        (1..=length).map(&mut next).collect()
    }

    fn head_of(entry: &Value) -> Head {
        let hash = entry["hash"].as_str().map(str::to_owned);
        Head { seq: entry["seq"].as_i64().expect("a number"), hash }
    }

    /// What is said, or the fault and its exit status.
    fn told(mut verifying: Verifying, entries: &[Value]) -> Result<String, (u8, String)> {
        let told = entries.iter().try_for_each(|entry| verifying.take(entry)).and_then(|()| verifying.end());
        told.map_err(|failure| (failure.status(), failure.message().unwrap_or_default().to_owned()))
    }

    fn whole(noted: Option<Head>) -> Verifying {
        Verifying::whole(noted, None)
    }

    fn file(noted: Option<Head>) -> Verifying {
        Verifying::file(noted, false, None)
    }

    #[test]
    fn a_whole_chain_is_told_with_its_head() {
        let entries = chain(3);
        let hash = entries[2]["hash"].as_str().expect("a hash");
        let wanted = format!("3 entries hold, since 2026-01-02T03:04:05.678Z\nhead 3:{hash}");
        assert_eq!(told(whole(None), &entries), Ok(wanted.clone()));
        assert_eq!(told(whole(Some(head_of(&entries[1]))), &entries), Ok(wanted.clone()));
        assert_eq!(told(file(None), &entries), Ok(wanted));
        assert_eq!(told(whole(None), &[]), Ok("There is no entry.".into()));
    }

    #[test]
    fn a_part_says_where_it_begins_and_a_server_may_not_give_one() {
        let entries = chain(4);
        let part = told(Verifying::file(None, true, None), &entries[2..]).expect("it holds");
        assert!(part.starts_with("2 entries hold") && part.contains("begins with entry 3"), "{part}");
        assert!(told(file(Some(head_of(&entries[1]))), &entries[2..]).is_ok());
        assert!(told(file(Some(head_of(&entries[3]))), &entries[2..]).is_ok());
        let mut other = head_of(&entries[1]);
        other.hash = head_of(&entries[0]).hash;
        let (status, fault) = told(file(Some(other)), &entries[2..]).expect_err("another beginning");
        assert!(fault.starts_with("entry 3 (aud_") && fault.contains("follows on another"), "{fault}");
        assert_eq!(status, 1);
        let early = told(file(Some(head_of(&entries[0]))), &entries[2..]);
        assert_eq!(early, Err((2, "entry 1, which was noted, is before what is here".into())));
        let (status, fault) = told(whole(None), &entries[2..]).expect_err("the beginning is missing");
        assert!(status == 1 && fault.contains("where entry 1 must stand"), "{fault}");
    }

    #[test]
    fn what_a_file_doesnt_hold_must_be_known_of() {
        let entries = chain(4);
        let (status, fault) = told(file(None), &entries[2..]).expect_err("nobody said that it is a part");
        assert!(status == 2 && fault.starts_with("the file begins with entry 3; "), "{fault}");
        assert_eq!(told(file(None), &[]).expect_err("nothing to check").0, 2);
        assert!(told(Verifying::file(None, true, None), &[]).is_ok());
        let (status, fault) = told(file(Some(head_of(&entries[3]))), &[]).expect_err("all is missing");
        assert!(status == 1 && fault.ends_with("the end is missing"), "{fault}");
    }

    #[test]
    fn entries_are_whose_they_must_be() {
        let entries = chain(3);
        assert!(told(Verifying::whole(None, Some(Value::Null)), &entries).is_ok());
        for other in
            [Verifying::whole(None, Some(json!("ten_1"))), Verifying::file(None, false, Some(json!("ten_1")))]
        {
            let (status, fault) = told(other, &entries).expect_err("another's");
            assert!(status == 1 && fault.ends_with("belongs to another chain"), "{fault}");
        }
        let part = Verifying::file(None, true, Some(json!("ten_1")));
        assert_eq!(told(part, &entries[1..]).expect_err("another's").0, 1);
    }

    #[test]
    fn what_was_noted_must_be_there_and_the_same() {
        let entries = chain(3);
        let (status, cut) =
            told(whole(Some(head_of(&entries[2]))), &entries[..2]).expect_err("an end is missing");
        assert_eq!(
            (status, cut.as_str()),
            (1, "the record ends at entry 2, and entry 3 was noted: the end is missing")
        );
        let mut other = head_of(&entries[1]);
        other.hash = head_of(&entries[0]).hash;
        let (_, anew) = told(whole(Some(other)), &entries).expect_err("another chain");
        assert!(anew.starts_with("entry 2 (aud_") && anew.ends_with("the record was written anew"), "{anew}");
        let mut changed = entries;
        changed[1]["action"] = json!("secret.delete");
        let (status, fault) = told(whole(None), &changed).expect_err("a change");
        assert!(
            fault.starts_with("entry 2 (aud_") && fault.ends_with("is not what its hash is of"),
            "{fault}"
        );
        assert_eq!(status, 1);
    }
}

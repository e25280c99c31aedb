//! The spellings of secrets. Those of a long one are long and many, so they are written only where one may stand.

use std::collections::HashSet;
use std::sync::Arc;

use super::forms::{self, Form};

/// Bytes of all secrets that are looked for in every form, where each counts as [`EACH`] more. Of what goes beyond, which are
/// the longest, the secrets as they are; no headers are so long.
pub(super) const IN_ALL_FORMS: usize = 256 << 10;
const EACH: usize = 1 << 10;

/// A secret in one of its forms.
#[derive(Clone)]
pub(super) struct Spelling {
    secret: Arc<str>,
    form: Form,
    /// In bytes.
    pub(super) length: usize,
}

impl Spelling {
    /// The whole of it.
    pub(super) fn whole(&self) -> String {
        self.form.write(&self.secret)
    }

    /// Its first bytes, so many at most.
    pub(super) fn head(&self, most: usize) -> Vec<u8> {
        // No character of a secret is written in nothing.
        let end = self.secret.char_indices().nth(most).map_or(self.secret.len(), |(at, _)| at);
        let mut head = self.form.write(&self.secret[..end]).into_bytes();
        head.truncate(most);
        head
    }

    /// Whether it and `text` are the same as far as both go. That costs as many bytes of `patience` as are compared; where
    /// none is left, they are taken for the same.
    pub(super) fn agrees(&self, text: &[u8], patience: &mut usize) -> bool {
        if *patience == 0 {
            return true;
        }
        let mut rest = text;
        let mut is_next = |written: &str| {
            *patience = patience.saturating_sub(written.len());
            let (here, behind) = rest.split_at(written.len().min(rest.len()));
            rest = behind;
            (written.as_bytes().starts_with(here), here.len() < written.len() || *patience == 0)
        };
        if matches!(self.form, Form::Base64 { .. }) {
            return is_next(&self.whole()).0;
        }
        let mut letter = String::new();
        for c in self.secret.chars() {
            letter.clear();
            self.form.letter(c, &mut letter);
            let (is_same, is_end) = is_next(&letter);
            if !is_same || is_end {
                return is_same;
            }
        }
        true
    }
}

/// All spellings of secrets that are long enough to be looked for.
pub(super) fn of<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Vec<Spelling> {
    let mut secrets: Vec<&str> = secrets.into_iter().map(str::trim).collect();
    secrets.sort_unstable_by_key(|secret| (secret.len(), *secret));
    secrets.dedup();
    let (mut all, mut cost) = (Vec::new(), 0_usize);
    for secret in secrets {
        cost = cost.saturating_add(secret.len() + EACH);
        let secret: Arc<str> = secret.into();
        let spelling = |(form, length)| Spelling { secret: Arc::clone(&secret), form, length };
        if cost > IN_ALL_FORMS {
            all.push(spelling((Form::Plain, secret.len())));
        } else {
            all.extend(distinct(&secret).map(spelling));
        }
        if let Some(bare) = secret.strip_prefix("whsec_") {
            all.push(Spelling { secret: bare.into(), form: Form::Plain, length: bare.len() });
        }
    }
    all.retain(|spelling| spelling.length >= super::SHORTEST);
    all
}

/// The forms in which a secret is not written as in another one, with its length there.
fn distinct(secret: &str) -> impl Iterator<Item = (Form, usize)> {
    let letters = letters(secret);
    // What nobody has to escape is written in one way.
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let escaping = (!letters.iter().all(|(c, _)| is_bare(*c))).then(forms::escaping);
    // A few bytes would be few characters of their own, and be found everywhere.
    let encoding = (secret.len() >= super::SHORTEST).then(forms::encoding);
    let all = [Form::Plain].into_iter().chain(escaping.into_iter().flatten());
    let (mut known, bytes) = (HashSet::new(), secret.len());
    all.chain(encoding.into_iter().flatten()).filter_map(move |form| {
        let mut written = || {
            let mut text = String::new();
            for (c, _) in &letters {
                form.letter(*c, &mut text);
                text.push('\0');
            }
            known.insert(text)
        };
        let is_new = matches!(form, Form::Base64 { .. }) || written();
        is_new.then(|| (form, form.length(bytes, &letters)))
    })
}

/// The characters of a secret, each with how often it stands there. For those that aren't ASCII stands one of as many bytes:
/// no form makes a difference between them.
fn letters(secret: &str) -> Vec<(char, usize)> {
    const OTHERS: [char; 3] = ['\u{e9}', '\u{fffd}', '\u{1f600}'];
    let mut counts = [0; 128 + OTHERS.len()];
    for c in secret.chars() {
        let nth = if c.is_ascii() { u32::from(c) as usize } else { 126 + c.len_utf8() };
        counts[nth] += 1;
    }
    let letters = ('\0'..='\x7f').chain(OTHERS).zip(counts);
    letters.filter(|(_, count)| *count > 0).collect()
}

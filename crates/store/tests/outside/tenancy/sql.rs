//! What the parameters of a statement stand for, read off its text: the column that one is compared with or written into.

use std::collections::BTreeMap;

/// What a parameter stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// A column's name, or `LIMIT`.
    pub(super) name: String,
    /// How it is compared; `=` where it is written.
    pub(super) operator: String,
}

/// Names of functions' arguments.
pub(super) type Functions = BTreeMap<String, Vec<String>>;

/// A statement as words: names, numbers, texts, operators, brackets, parameters. Without comments and casts.
pub(super) fn words(sql: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), sql);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '\'' | '"' => 1 + rest[1..].find(first).map_or(rest.len() - 1, |end| end + 1),
            _ if is_name(first) || first == '$' => {
                1 + rest[1..].find(|c| !is_name(c)).unwrap_or(rest.len() - 1)
            }
            _ if is_operator(first) => rest.find(|c| !is_operator(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        if !word.starts_with("--") && !word.trim().is_empty() {
            words.push(word.to_owned());
        }
        rest = after;
    }
    without_casts(words)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_operator(c: char) -> bool {
    "<>=!|&+-*/%~#@?^:".contains(c)
}

fn without_casts(words: Vec<String>) -> Vec<String> {
    let (mut kept, mut words) = (Vec::new(), words.into_iter().peekable());
    while let Some(word) = words.next() {
        if word != "::" {
            kept.push(word);
            continue;
        }
        words.next();
        if words.peek().is_some_and(|next| next == "[") {
            words.next();
            words.next();
        }
    }
    kept
}

/// What each parameter stands for, where it can be told.
pub(super) fn slots(sql: &str, count: usize, functions: &Functions) -> Vec<Option<Slot>> {
    let words = words(sql);
    let mut slots = vec![None; count];
    for (at, word) in words.iter().enumerate() {
        let number = word.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        if let Some(slot) = number.and_then(|number| slots.get_mut(number - 1))
            && slot.is_none()
        {
            *slot = Reader { words: &words, functions }.slot(at);
        }
    }
    slots
}

struct Reader<'a> {
    words: &'a [String],
    functions: &'a Functions,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    fn slot(&self, at: usize) -> Option<Slot> {
        if self.word(at.wrapping_sub(1)) == "LIMIT" {
            return Some(equal("LIMIT"));
        }
        if let Some(slot) = self.compared(at) {
            return Some(slot);
        }
        if let Some((open, place)) = self.enclosing(at) {
            return match self.word(open.wrapping_sub(1)) {
                "VALUES" => self.written(open, place),
                "unnest" => self.unnested(open, place),
                // Around the one parameter, as coalesce is: what that is compared with.
                "ANY" | "ALL" if self.compared(open - 1).is_some() => self.compared(open - 1),
                name if self.functions.contains_key(name) => {
                    self.functions[name].get(place).map(|name| equal(name))
                }
                operator if is_comparison(operator) => self.row(open - 1, place),
                _ => self
                    .compared(open)
                    .or_else(|| self.compared(open.wrapping_sub(1)))
                    .or_else(|| self.selected(at)),
            };
        }
        self.selected(at)
    }

    /// `column = $n`, and `$n = column`.
    fn compared(&self, at: usize) -> Option<Slot> {
        let (operator, column) = (self.word(at.wrapping_sub(1)), self.word(at.wrapping_sub(2)));
        if is_comparison(operator) && is_column(column) {
            return Some(Slot { name: column.to_owned(), operator: operator.to_owned() });
        }
        let (operator, mut column) = (self.word(at + 1), self.word(at + 2));
        if self.word(at + 3) == "." {
            column = self.word(at + 4);
        }
        (operator == "=" && is_column(column)).then(|| equal(column))
    }

    /// `(a, b) < ($m, $n)`; `before` is the operator.
    fn row(&self, before: usize, place: usize) -> Option<Slot> {
        let close = before.checked_sub(1).filter(|at| self.word(*at) == ")")?;
        let open = self.enclosing(close)?.0;
        let name = self.elements(open, close).get(place)?.last()?.clone();
        Some(Slot { name, operator: self.word(before).to_owned() })
    }

    /// The bracket that is open at a place, and how many commas stand between.
    fn enclosing(&self, at: usize) -> Option<(usize, usize)> {
        let (mut depth, mut commas) = (0_usize, 0);
        for place in (0..at).rev() {
            match self.word(place) {
                ")" => depth += 1,
                "(" if depth == 0 => return Some((place, commas)),
                "(" => depth -= 1,
                "," if depth == 0 => commas += 1,
                _ => (),
            }
        }
        None
    }

    /// What stands between commas, from an open bracket to its end.
    fn elements(&self, open: usize, close: usize) -> Vec<Vec<String>> {
        let (mut all, mut depth) = (vec![Vec::new()], 0_usize);
        for word in &self.words[open + 1..close] {
            match word.as_str() {
                "," if depth == 0 => all.push(Vec::new()),
                word => {
                    depth = if word == "(" { depth + 1 } else { depth - usize::from(word == ")") };
                    all.last_mut().expect("one at least").push(word.to_owned());
                }
            }
        }
        all
    }

    fn close_of(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.words.len()).find(|at| {
            depth = match self.word(*at) {
                "(" => depth + 1,
                ")" => depth - 1,
                _ => depth,
            };
            depth == 0
        })
    }

    /// `INSERT INTO t (a, b) VALUES ($1, $2)`.
    fn written(&self, open: usize, place: usize) -> Option<Slot> {
        self.columns_before(open - 1)?.get(place).map(|name| equal(name))
    }

    /// The columns of an INSERT whose list ends just before.
    fn columns_before(&self, at: usize) -> Option<Vec<String>> {
        let close = at.checked_sub(1).filter(|at| self.word(*at) == ")")?;
        let open = self.enclosing(close)?.0;
        let is_insert = open >= 3 && self.word(open - 2) == "INTO";
        is_insert.then(|| {
            self.elements(open, close).into_iter().map(|mut words| words.pop().unwrap_or_default()).collect()
        })
    }

    /// `INSERT INTO t (a, b) SELECT $1, $2 …`; also within a function's brackets.
    fn selected(&self, at: usize) -> Option<Slot> {
        let (mut depth, mut commas) = (0_usize, 0);
        for place in (0..at).rev() {
            match self.word(place) {
                ")" => depth += 1,
                // Out of brackets: what is counted is the commas around them.
                "(" if depth == 0 => commas = 0,
                "(" => depth -= 1,
                "," if depth == 0 => commas += 1,
                "FROM" | "WHERE" | ";" if depth == 0 => return None,
                "SELECT" if depth == 0 => {
                    return self.columns_before(place)?.get(commas).map(|name| equal(name));
                }
                _ => (),
            }
        }
        None
    }

    /// `unnest($1, $2) AS m(a, b)`.
    fn unnested(&self, open: usize, place: usize) -> Option<Slot> {
        let after = self.close_of(open)? + 1;
        let names = (after..after + 6).find(|at| self.word(*at) == "(")?;
        let elements = self.elements(names, self.close_of(names)?);
        elements.get(place)?.first().map(|name| equal(name))
    }
}

fn equal(name: &str) -> Slot {
    Slot { name: name.to_owned(), operator: "=".into() }
}

fn is_comparison(word: &str) -> bool {
    ["=", "<", ">", "<=", ">=", "<>", "=>"].contains(&word)
}

fn is_column(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
}

#[test]
fn what_parameters_stand_for_is_read_off_the_text() {
    let functions = Functions::from([("take".to_owned(), vec!["p_tenant".to_owned(), "p_run".to_owned()])]);
    for (sql, wanted) in [
        ("SELECT a FROM t WHERE t.tenant_id = $1 AND ord < $2 LIMIT $3", "tenant_id= ord< LIMIT="),
        ("SELECT 1 WHERE $1::uuid IS NULL OR tenant_id < $1", "tenant_id<"),
        (
            "SELECT 1 WHERE tenant_id = $1 AND run_id = ANY($2::uuid[]) AND x <> ALL ($3)",
            "tenant_id= run_id= x<>",
        ),
        ("SELECT 1 WHERE (created_at, name) < ($1, $2)", "created_at< name<"),
        ("INSERT INTO t (a, b) VALUES ($1, $2::text::json) ON CONFLICT DO NOTHING", "a= b="),
        ("INSERT INTO t (a, b, c) SELECT $1, x.b, $2 FROM x WHERE y = $3", "a= c= y="),
        (
            "SELECT * FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS m(tenant_id, sha256)",
            "tenant_id= sha256=",
        ),
        ("SELECT take($1, $2)", "p_tenant= p_run="),
        ("SELECT make_interval(days => $1)", "days=>"),
        ("UPDATE t SET a = coalesce($1, a) -- $9\n WHERE 'x' = b AND $2 = t.id", "a= id="),
    ] {
        let count = wanted.split(' ').count();
        let slots = slots(sql, count, &functions);
        let read: Vec<_> = slots
            .iter()
            .map(|slot| slot.as_ref().map_or("?".into(), |s| format!("{}{}", s.name, s.operator)))
            .collect();
        assert_eq!(read.join(" "), wanted, "{sql}");
    }
}

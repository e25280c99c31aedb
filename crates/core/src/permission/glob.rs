//! Names by pattern.

/// Whether `name` matches `glob` (`*` any text, `?` any one character).
pub fn glob_matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match star {
                // The last star takes one character more.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (g, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

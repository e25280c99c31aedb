//! Lists of `name=value` with commas between them, percent-encoded where they must be.

use percent_encoding::percent_decode_str;

/// Reads a list. Reasons name items by their place: their text may hold a secret.
pub(crate) fn read(text: &str) -> Result<Vec<(String, String)>, String> {
    let items = text.split(',').enumerate().filter(|(_, item)| !item.trim().is_empty());
    items.map(|(at, item)| pair(item).map_err(|what| format!("has {what} in its item {}", at + 1))).collect()
}

fn pair(item: &str) -> Result<(String, String), &'static str> {
    let (name, value) = item.split_once('=').ok_or("no \"=\"")?;
    let (name, value) = (decoded(name)?, decoded(value)?);
    if name.is_empty() { Err("no name") } else { Ok((name, value)) }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let decoded = percent_decode_str(text.trim()).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| "no UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_as_they_were_meant() {
        let pairs = read(" a=1, b = two words ,,c=x%2Cy%3Dz,d=Basic dTpw==,e=,f=100%").expect("a list");
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected =
            [("a", "1"), ("b", "two words"), ("c", "x,y=z"), ("d", "Basic dTpw=="), ("e", ""), ("f", "100%")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_text() {
        for (text, says) in [
            ("a=1,hush", "has no \"=\" in its item 2"),
            ("=hush", "has no name in its item 1"),
            ("a=%ff", "has no UTF-8 in its item 1"),
        ] {
            assert_eq!(read(text), Err(says.to_owned()));
        }
    }
}

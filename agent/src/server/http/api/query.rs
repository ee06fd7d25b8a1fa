//! The part of an address behind the question mark: pairs of names and values, percent-decoded, few
//! and short. Decides nothing about what they mean.

use std::collections::BTreeMap;

/// Longer than any search that a person writes.
const LONGEST: usize = 1024;
/// More than any question has.
const MOST: usize = 16;

/// The pairs. One without a value says nothing and is left out; one that is given twice is refused,
/// because nobody knows which of the two was meant.
pub(super) fn pairs(query: &str) -> Result<BTreeMap<String, String>, String> {
    if query.len() > LONGEST {
        return Err(format!("the query has {} bytes; write at most {LONGEST}", query.len()));
    }
    let mut pairs = BTreeMap::new();
    for (number, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        if number == MOST {
            return Err(format!("the query has more than {MOST} parameters"));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if pairs.insert(name.clone(), value).is_some() {
            return Err(format!("{name}: given twice; write it once"));
        }
    }
    pairs.retain(|_, value| !value.is_empty());
    Ok(pairs)
}

fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = (rest.next().and_then(digit), rest.next().and_then(digit));
                let (Some(high), Some(low)) = digits else {
                    return Err(format!("{text:?}: a % stands before two hexadecimal digits"));
                };
                high << 4 | low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?}: not UTF-8 once it is decoded"))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_once() {
        let table: [(&str, &[(&str, &str)]); 7] = [
            ("", &[]),
            ("&&", &[]),
            ("find=", &[]),
            ("find", &[]),
            (
                "find=2001%3Adb8%3a%3A%2F64&which=all",
                &[("find", "2001:db8::/64"), ("which", "all")],
            ),
            ("a=b=c&d=x+y%2B%25", &[("a", "b=c"), ("d", "x y+%")]),
            ("a=%2541", &[("a", "%41")]),
        ];
        for (query, wanted) in table {
            let wanted: BTreeMap<String, String> =
                wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(pairs(query).unwrap(), wanted, "{query}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        let many: String = (0..=MOST).map(|n| format!("a{n}=1&")).collect();
        let long = format!("a={}", "x".repeat(LONGEST));
        let table = [
            ("a=1&a=2", "a: given twice"),
            ("a=1&%61=2", "a: given twice"),
            ("a=%", "a % stands before"),
            ("a=%4", "a % stands before"),
            ("a=%zz", "a % stands before"),
            ("a=%+1", "a % stands before"),
            ("a=%ff", "not UTF-8"),
            (&*many, "more than 16 parameters"),
            (&*long, "1026 bytes"),
        ];
        for (query, words) in table {
            let refusal = pairs(query).unwrap_err();
            assert!(refusal.contains(words), "{query}: {refusal}");
        }
    }
}

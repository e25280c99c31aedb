//! Whether a request's head can be read in one way only.

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Until the chunks say so.
    Chunked,
}

/// Headers of which a second one would leave open which of them counts.
const SINGLE: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "content-type",
    "authorization",
    "expect",
    "idempotency-key",
    "if-match",
    "last-event-id",
    "x-acting-user",
];

/// Judges a head: how long its body is, and what is wrong with it.
pub(super) fn judge(bytes: &[u8], head: &httparse::Request<'_, '_>) -> (Framing, Option<&'static str>) {
    let coding = header(head, "transfer-encoding");
    let length = header(head, "content-length");
    let framing = match (coding, length) {
        (Some(_), _) => Framing::Chunked,
        (None, Some(digits)) => Framing::Length(number(digits).unwrap_or(0)),
        (None, None) => Framing::Length(0),
    };
    let fault = lines(bytes)
        .or_else(|| doubled(head))
        .or_else(|| match (coding, length) {
            (Some(_), Some(_)) => Some("A body has a Content-Length or a Transfer-Encoding, not both."),
            (Some(coding), None) if !coding.eq_ignore_ascii_case(b"chunked") => {
                Some("Transfer-Encoding can be \"chunked\" and nothing else.")
            }
            (None, Some(digits)) if number(digits).is_none() => Some("Content-Length must be a number."),
            _ => None,
        })
        .or_else(|| host(head))
        .or_else(|| target(head));
    (framing, fault)
}

fn header<'h>(head: &httparse::Request<'_, 'h>, name: &str) -> Option<&'h [u8]> {
    let mut named = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    named.next().map(|header| header.value)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text?.parse().ok()
}

fn lines(bytes: &[u8]) -> Option<&'static str> {
    let bare = bytes.iter().enumerate().any(|(at, byte)| {
        *byte == b'\n' && at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'\r')
    });
    bare.then_some("Lines must end with CR LF.")
}

fn doubled(head: &httparse::Request<'_, '_>) -> Option<&'static str> {
    let is_doubled = |name: &&str| {
        head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).nth(1).is_some()
    };
    SINGLE.iter().any(is_doubled).then_some("A header is given twice that can be given once.")
}

fn host(head: &httparse::Request<'_, '_>) -> Option<&'static str> {
    let Some(value) = header(head, "host") else {
        return (head.version == Some(1)).then_some("A Host header is needed.");
    };
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_~%:[]".contains(byte);
    (!value.iter().all(legal)).then_some("The Host header names no host.")
}

/// A target is a path, or a whole URL of the host that the Host header names.
fn target(head: &httparse::Request<'_, '_>) -> Option<&'static str> {
    let target = head.path.unwrap_or_default();
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Some("The request's target has a character that must be percent-encoded.");
    }
    if target.starts_with('/') {
        return None;
    }
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (own, rest) = target.split_at_checked(scheme.len())?;
        own.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = rest else { return Some("The request's target must be a path.") };
    let named = rest.split(['/', '?']).next().unwrap_or_default();
    let is_same = header(head, "host").is_some_and(|host| host.eq_ignore_ascii_case(named.as_bytes()));
    (!is_same || named.is_empty()).then_some("The request's target and its Host header name different hosts.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(head: &str) -> (Framing, Option<&'static str>) {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(head.as_bytes());
        assert!(matches!(parsed, Ok(httparse::Status::Complete(_))), "{head:?}: {parsed:?}");
        judge(head.as_bytes(), &request)
    }

    #[test]
    fn heads_that_are_plain() {
        let table = [
            ("GET / HTTP/1.1", "Host: x", Framing::Length(0)),
            ("GET / HTTP/1.0", "Accept: a", Framing::Length(0)),
            ("GET /a%2fb?c=d&e HTTP/1.1", "host: [::1]:8080", Framing::Length(0)),
            ("POST / HTTP/1.1", "Host: x\r\nContent-Length: 17", Framing::Length(17)),
            ("POST / HTTP/1.1", "Host: x\r\nTransfer-Encoding: Chunked", Framing::Chunked),
            ("GET HTTP://A.example:80/b HTTP/1.1", "Host: a.example:80", Framing::Length(0)),
            ("GET / HTTP/1.1", "Host: x\r\nAccept: a\r\nAccept: b", Framing::Length(0)),
        ];
        for (line, headers, framing) in table {
            assert_eq!(judged(&format!("{line}\r\n{headers}\r\n\r\n")), (framing, None), "{line} {headers}");
        }
    }

    #[test]
    fn heads_of_doubt() {
        let table = [
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "GET / HTTP/1.1\r\nAccept: a",
            "GET / HTTP/1.1\r\nHost: x\r\nHost: x",
            "GET / HTTP/1.1\r\nHost: a@b",
            "GET / HTTP/1.1\r\nHost: a, b",
            "GET / HTTP/1.1\r\nHost: x\nAccept: a",
            "GET / HTTP/1.1\nHost: x",
            "GET http://other/ HTTP/1.1\r\nHost: x",
            "GET http:///a HTTP/1.1\r\nHost: ",
            "GET ftp://x/ HTTP/1.1\r\nHost: x",
            "CONNECT x:443 HTTP/1.1\r\nHost: x:443",
            "OPTIONS * HTTP/1.1\r\nHost: x",
            "GET /a#b HTTP/1.1\r\nHost: x",
            "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: b",
        ];
        for head in table {
            assert!(judged(&format!("{head}\r\n\r\n")).1.is_some(), "{head:?}");
        }
    }
}

//! HTML, written by hand: what others wrote is text in it and nothing else.

use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}\
    pre{background:#f4f4f4;padding:1rem;overflow:auto;white-space:pre-wrap;word-break:break-word}\
    textarea{font:inherit;width:100%;box-sizing:border-box;margin-bottom:1rem}\
    button{font:inherit;padding:.5rem 1.2rem;margin-right:1rem}dt{font-weight:600}\
    dd{margin:0 0 .6rem;word-break:break-word}";

/// Headers that keep a page to itself: nothing is loaded, kept, framed, told on or taken for something else.
const SEAL: [(HeaderName, &str); 8] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
];

/// The same with those headers.
pub(super) fn sealed(mut response: Response) -> Response {
    for (name, value) in SEAL {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A whole page; `body` is HTML.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"robots\" content=\"noindex\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>",
        escape(title)
    )
}

/// The form that decides. It goes to the page's own address, which holds the token, and says which arguments it showed.
pub(super) fn form(input_hash: Option<&str>, yes: Option<&str>, no: &str) -> String {
    let hash = input_hash
        .map(|hash| format!("<input type=\"hidden\" name=\"input_hash\" value=\"{}\">", escape(hash)));
    let button = |word: &str, label: &str| {
        format!("<button name=\"decision\" value=\"{word}\">{}</button>", escape(label))
    };
    let yes = yes.map(|label| button("approve", label)).unwrap_or_default();
    format!(
        "<form method=\"post\">{}<label>Reason, if you like to give one\
         <textarea name=\"reason\" maxlength=\"1024\" rows=\"2\"></textarea></label>{yes}{}</form>",
        hash.unwrap_or_default(),
        button("deny", no),
    )
}

/// A list of facts.
#[derive(Default)]
pub(super) struct Facts(String);

impl Facts {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)));
    }

    pub(super) fn add_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub(super) fn html(self) -> String {
        format!("<dl>{}</dl>", self.0)
    }
}

/// Text, as text. What can't be seen, or turns the order of what can, is written out as JSON has it: a page must not look
/// like another than it is.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_hidden(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Control characters, and those of Unicode that have no width or turn the direction of writing.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

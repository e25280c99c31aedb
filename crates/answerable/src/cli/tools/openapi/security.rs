//! The secrets that an operation needs, as headers with templates.

use serde_json::{Map, Value};

use super::Unmapped;
use super::names::legal;
use super::operation::Place;

/// Headers that say who calls.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    pub(super) headers: Map<String, Value>,
    pub(super) secrets: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Of the ways that an operation accepts, the first that headers can say.
pub(super) fn proofs(place: &Place<'_>) -> Result<Proofs, Unmapped> {
    let levels = [place.operation(), place.document.root()];
    let ways = levels.into_iter().find_map(|level| level.get("security")).and_then(Value::as_array);
    let Some(ways) = ways.filter(|ways| !ways.is_empty()) else { return Ok(Proofs::default()) };
    let mut refused = None;
    for way in ways {
        match one_way(place, way) {
            Ok(proofs) => return Ok(proofs),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_else(|| Unmapped("it says not how to prove who calls".into())))
}

/// One way may need several proofs.
fn one_way(place: &Place<'_>, way: &Value) -> Result<Proofs, Unmapped> {
    let mut proofs = Proofs::default();
    for name in way.as_object().into_iter().flat_map(Map::keys) {
        let schemes = place.document.root().pointer("/components/securitySchemes");
        let scheme = schemes.and_then(|schemes| schemes.get(name));
        let scheme = scheme.ok_or_else(|| Unmapped(format!("the security scheme {name} isn't there")))?;
        proofs.add(name, place.document.resolve(scheme)?)?;
    }
    Ok(proofs)
}

impl Proofs {
    fn add(&mut self, name: &str, scheme: &Value) -> Result<(), Unmapped> {
        let text = |field: &str| scheme.get(field).and_then(Value::as_str).unwrap_or_default();
        let secret = legal(name);
        let place = format!("{{{{secret.{secret}}}}}");
        let kind = (text("type"), text("in"), text("scheme").to_ascii_lowercase());
        let (header, value) = match (kind.0, kind.1, kind.2.as_str()) {
            ("apiKey", "header", _) => (text("name").to_ascii_lowercase(), place),
            ("apiKey", "cookie", _) => ("cookie".to_owned(), format!("{}={place}", text("name"))),
            ("http", _, "bearer") => ("authorization".to_owned(), format!("Bearer {place}")),
            ("http", _, "basic") => {
                self.notes.push(format!("the secret {secret} is user:password in base64"));
                ("authorization".to_owned(), format!("Basic {place}"))
            }
            ("oauth2" | "openIdConnect", ..) => {
                self.notes.push(format!("the secret {secret} is an access token, which is not renewed"));
                ("authorization".to_owned(), format!("Bearer {place}"))
            }
            ("apiKey", "query", _) => {
                return Err(Unmapped(format!("{name} stands in the address, where no secret may")));
            }
            _ => return Err(Unmapped(format!("the security scheme {name} can't be said by a header"))),
        };
        if self.headers.contains_key(&header) && header != "cookie" {
            return Err(Unmapped(format!("it needs two proofs in the header {header}")));
        }
        let value = match self.headers.get(&header).and_then(Value::as_str) {
            Some(other) => format!("{other}; {value}"),
            None => value,
        };
        self.headers.insert(header, value.into());
        self.secrets.push(secret);
        Ok(())
    }
}

//! An OpenID Connect provider that tests play: its configuration, its keys, and the tokens that it signs.

mod example;
mod key;

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::arrivals::Arrivals;
use crate::lock::locked;
use crate::loopback::Loopback;
pub use key::SigningKey;
use key::encoded;

/// A provider on loopback.
#[derive(Debug)]
pub struct ScriptedIssuer {
    server: Loopback,
    desk: Arc<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    /// What stands at `/keys`; none: it is away.
    keys: Mutex<Option<String>>,
    /// What its configuration says instead of what it should.
    configuration: Mutex<Value>,
    asked: Arrivals,
    url: Mutex<String>,
}

impl ScriptedIssuer {
    /// Starts a provider that shows these keys.
    ///
    /// # Errors
    /// No free port.
    pub async fn start(keys: &[&SigningKey]) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&desk));
        let server = Loopback::serve(router).await?;
        *locked(&desk.url) = server.url();
        let issuer = Self { server, desk };
        issuer.show(keys);
        Ok(issuer)
    }

    /// Its name, which is its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// From now on it shows these keys.
    pub fn show(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.show_text(&json!({"keys": keys}).to_string());
    }

    /// From now on it shows this where its keys should be.
    pub fn show_text(&self, text: &str) {
        *locked(&self.desk.keys) = Some(text.to_owned());
    }

    /// From now on it answers nothing but 503.
    pub fn go_away(&self) {
        *locked(&self.desk.keys) = None;
    }

    /// From now on its configuration says this in place of what it said.
    pub fn configure(&self, changes: Value) {
        *locked(&self.desk.configuration) = changes;
    }

    /// How often its keys were asked for.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.desk.asked.count()
    }

    /// Returns when its keys were asked for so often.
    ///
    /// # Panics
    /// When they are not.
    pub async fn reached(&self, wanted: usize) {
        self.desk.asked.reached(wanted, "requests for keys").await;
    }
}

async fn answer(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let is_for_keys = request.uri().path() == "/keys";
    let answer = match locked(&desk.keys).clone() {
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Some(keys) if is_for_keys => keys.into_response(),
        Some(_) => {
            let url = locked(&desk.url).clone();
            let mut says = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
            if let (Some(says), Some(changes)) =
                (says.as_object_mut(), locked(&desk.configuration).as_object())
            {
                says.extend(changes.clone());
            }
            says.to_string().into_response()
        }
    };
    if is_for_keys || answer.status() == StatusCode::SERVICE_UNAVAILABLE {
        desk.asked.add();
    }
    answer
}

/// A token that says `claims`, signed with a key by its own algorithm.
#[must_use]
pub fn token(key: &SigningKey, claims: &Value) -> String {
    token_with(key, &json!({"alg": key.algorithm(), "kid": key.kid(), "typ": "JWT"}), claims)
}

/// The same with another header. It is signed by the algorithm that the header names, if the key can do that.
#[must_use]
pub fn token_with(key: &SigningKey, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = key.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

/// A token that is "signed" with whatever text is at hand, by HS256: what works where a public key is taken for a secret.
#[must_use]
pub fn token_by_secret(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
    mac.update(signed.as_bytes());
    format!("{signed}.{}", encoded(mac.finalize().into_bytes()))
}

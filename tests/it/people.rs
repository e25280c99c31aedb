//! People who act under a name of their own, for which an identity provider vouches.

mod deciding;
mod tokens;

use std::sync::Arc;

use answerable_testkit::issuer::token;
use answerable_testkit::{ScriptedIssuer, SigningKey, TestDatabase};
use serde_json::{Value, json};

use crate::harness::{Client, Server, With, World};

/// A world whose server trusts a provider.
struct People {
    world: World,
    issuer: ScriptedIssuer,
    key: SigningKey,
}

impl People {
    async fn start() -> Self {
        let key = SigningKey::p256("k1");
        let issuer = ScriptedIssuer::start(&[&key, &SigningKey::rsa("k0")]).await.expect("an issuer");
        let database = TestDatabase::create().await.expect("a database");
        let settings =
            [("ANSWERABLE_OIDC_ISSUER", &*issuer.url()), ("ANSWERABLE_OIDC_AUDIENCE", "answerable")];
        let server = Server::start_with(&database.url, &settings).await;
        Self { world: World::on(Arc::new(server), Some(database)).await, issuer, key }
    }

    /// What a good token of somebody says.
    fn claims(&self, name: &str, scopes: &[&str]) -> Value {
        json!({
            "iss": self.issuer.url(), "aud": "answerable", "exp": now() + 600, "email": name,
            "answerable_tenant": self.world.tenant, "answerable_scopes": scopes,
        })
    }

    /// Somebody with these scopes.
    fn person(&self, name: &str, scopes: &[&str]) -> Client {
        self.with(&self.claims(name, scopes))
    }

    /// Whoever brings a token that says this.
    fn with(&self, claims: &Value) -> Client {
        self.world.client.with_key(&token(&self.key, claims))
    }

    /// Somebody whose token says something else, too; null leaves a claim out.
    fn but(&self, changes: Value) -> Client {
        let mut claims = self.claims("ann", &["admin"]).with(changes);
        claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        self.with(&claims)
    }
}

fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

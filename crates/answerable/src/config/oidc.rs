//! The OpenID Connect provider that vouches for people.

use answerable_identity::{IssuerConfig, Rules};
use url::Url;

use super::{Invalid, Layers};

/// Longest value, in bytes.
const LONGEST: usize = 512;
const ISSUER: &str = "oidc_issuer";
const AUDIENCE: &str = "oidc_audience";
/// What has no meaning without an issuer.
const OF_AN_ISSUER: [&str; 5] =
    [AUDIENCE, "oidc_jwks_url", "oidc_tenant_claim", "oidc_scopes_claim", "oidc_user_claim"];

/// The issuer, if there is one.
pub(crate) fn issuer(layers: &Layers) -> Result<Option<IssuerConfig>, Invalid> {
    let Some(issuer) = layers.get(ISSUER, address)? else {
        return match OF_AN_ISSUER.into_iter().find(|name| layers.is_set(name)) {
            Some(name) => {
                Err(Invalid(format!("{} is set and {} is not", layers.place(name), layers.place(ISSUER))))
            }
            None => Ok(None),
        };
    };
    let audience = layers.get(AUDIENCE, word)?.ok_or_else(|| {
        Invalid(format!("{} is set and {} is not", layers.place(ISSUER), layers.place(AUDIENCE)))
    })?;
    let claim =
        |name, default: &str| layers.get(name, word).map(|claim| claim.unwrap_or_else(|| default.to_owned()));
    let rules = Rules {
        issuer,
        audience,
        tenant_claim: claim("oidc_tenant_claim", "answerable_tenant")?,
        scopes_claim: claim("oidc_scopes_claim", "answerable_scopes")?,
        user_claim: claim("oidc_user_claim", "email")?,
    };
    Ok(Some(IssuerConfig { rules, jwks_url: layers.get("oidc_jwks_url", address)? }))
}

/// An address of the provider's, as it was written: tokens repeat it so.
fn address(text: &str) -> Result<String, String> {
    let needed = || {
        format!(
            "is {text:?}, and a URL like https://id.example is needed (http only for this machine itself)"
        )
    };
    let url = Url::parse(text).map_err(|_| needed())?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if is_plain && answerable_identity::is_safe(text) && text.len() <= LONGEST {
        Ok(text.to_owned())
    } else {
        Err(needed())
    }
}

fn word(text: &str) -> Result<String, String> {
    if (1..=LONGEST).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("must have 1 to {LONGEST} printable characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<IssuerConfig>, String> {
        let environment =
            pairs.iter().map(|(name, text)| (format!("ANSWERABLE_OIDC_{name}").into(), (*text).into()));
        Layers::stack(vec![], environment, None).and_then(|layers| issuer(&layers)).map_err(|error| error.0)
    }

    #[test]
    fn an_issuer_has_defaults_for_all_but_the_audience() {
        assert_eq!(read(&[]), Ok(None));
        let config = read(&[("ISSUER", "https://id.example/"), ("AUDIENCE", "answerable")]).expect("valid");
        let rules = Rules {
            issuer: "https://id.example/".into(),
            audience: "answerable".into(),
            tenant_claim: "answerable_tenant".into(),
            scopes_claim: "answerable_scopes".into(),
            user_claim: "email".into(),
        };
        assert_eq!(config, Some(IssuerConfig { rules, jwks_url: None }));
        let all = [
            ("ISSUER", "http://127.0.0.1:9/realms/a"),
            ("AUDIENCE", "answerable"),
            ("JWKS_URL", "https://id.example/keys?v=2"),
            ("TENANT_CLAIM", "https://answerable.example/tenant"),
            ("SCOPES_CLAIM", "roles"),
            ("USER_CLAIM", "sub"),
        ];
        let config = read(&all).expect("valid").expect("an issuer");
        assert_eq!(config.jwks_url.as_deref(), Some("https://id.example/keys?v=2"));
        let Rules { tenant_claim, scopes_claim, user_claim, .. } = config.rules;
        assert_eq!(
            [&*tenant_claim, &scopes_claim, &user_claim],
            ["https://answerable.example/tenant", "roles", "sub"]
        );
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let issuer = ("ISSUER", "https://id.example");
        for (pairs, says) in [
            (vec![issuer], "ANSWERABLE_OIDC_ISSUER is set and ANSWERABLE_OIDC_AUDIENCE is not"),
            (vec![("AUDIENCE", "a")], "ANSWERABLE_OIDC_AUDIENCE is set and ANSWERABLE_OIDC_ISSUER is not"),
            (
                vec![("USER_CLAIM", "a")],
                "ANSWERABLE_OIDC_USER_CLAIM is set and ANSWERABLE_OIDC_ISSUER is not",
            ),
            (vec![("ISSUER", "http://id.example")], "ANSWERABLE_OIDC_ISSUER is \"http://id.example\""),
            (vec![("ISSUER", "id.example")], "ANSWERABLE_OIDC_ISSUER is \"id.example\""),
            (vec![("ISSUER", "https://u:p@id.example")], "ANSWERABLE_OIDC_ISSUER is "),
            (
                vec![issuer, ("AUDIENCE", "a"), ("JWKS_URL", "http://10.0.0.1/k")],
                "ANSWERABLE_OIDC_JWKS_URL is \"http://10.0.0.1/k\"",
            ),
            (
                vec![issuer, ("AUDIENCE", "a\nb")],
                "ANSWERABLE_OIDC_AUDIENCE must have 1 to 512 printable characters",
            ),
        ] {
            let error = read(&pairs).expect_err(says);
            assert!(error.starts_with(says) && !error.contains('\n'), "{error}");
        }
    }
}

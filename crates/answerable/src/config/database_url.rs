//! The connection URL of a database. It is never repeated in errors, for it may hold a password.

use secrecy::SecretString;
use url::Url;

use super::unknown::did_you_mean;

/// Parameters that the driver knows. It would pass over any other, and with a misspelt `sslmode` over the encryption.
const PARAMETERS: [&str; 17] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "options",
];
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

pub(crate) fn read(text: &str) -> Result<SecretString, String> {
    let url =
        Url::parse(text).map_err(|e| format!("is no URL ({e}): postgres://user:password@host/database"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("begins with {}://, and postgres:// is needed", url.scheme()));
    }
    for (name, value) in url.query_pairs() {
        check_parameter(&name, &value)?;
    }
    Ok(text.into())
}

fn check_parameter(name: &str, value: &str) -> Result<(), String> {
    let is_number = || value.parse::<u16>().is_ok();
    match name {
        "sslmode" | "ssl-mode" if !SSL_MODES.contains(&value) => {
            Err(format!("has a {name} that is none of {}", SSL_MODES.join(", ")))
        }
        "port" | "statement-cache-capacity" if !is_number() => Err(format!("has a {name} that is no number")),
        "hostaddr" if value.parse::<std::net::IpAddr>().is_err() => {
            Err("has a hostaddr that is no IP address".to_owned())
        }
        // The service names itself to the database, so what is given here is only not wrong.
        "application_name" => Ok(()),
        _ if PARAMETERS.contains(&name) || name.starts_with("options[") => Ok(()),
        _ => Err(format!("has an unknown parameter {name:?}{}", did_you_mean(name, &PARAMETERS))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_all_kinds_are_taken() {
        for text in [
            "postgresql://u:p@h:5432/d?sslmode=disable",
            "postgres:///d?host=/run/postgresql&user=u",
            "postgres://u@h/d?options[statement_timeout]=5s&application_name=x&statement-cache-capacity=0",
        ] {
            read(text).expect(text);
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_no_url_is_repeated() {
        for (text, says) in [
            ("mysql://u:hush@h/d", "begins with mysql://"),
            ("u:hush@h/d", "begins with u://"),
            ("host=h password=hush", "is no URL"),
            ("postgres://u:hush@h:99999/d", "is no URL"),
            ("postgres://h/d?sslmod=hush", "has an unknown parameter \"sslmod\"; did you mean sslmode?"),
            ("postgres://h/d?sslmode=hush", "has a sslmode that is none of disable,"),
            ("postgres://h/d?port=hush", "has a port that is no number"),
            ("postgres://h/d?hostaddr=hush", "has a hostaddr that is no IP address"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.starts_with(says) && !error.contains("hush"), "{error}");
        }
    }
}

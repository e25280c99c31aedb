//! Wrong configuration stops the start: one line on standard error, exit status 2.

use std::process::{Command, Output};

fn answerable(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().expect("temporary folder");
    answerable_in(folder.path(), arguments, environment)
}

fn answerable_in(folder: &std::path::Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_answerable"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .current_dir(folder)
        .output()
        .expect("answerable runs")
}

fn assert_refused(output: &Output, says: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(says), "{error:?} does not say {says:?}");
    assert!(output.stdout.is_empty());
}

const DATABASE: (&str, &str) = ("DATABASE_URL", "postgres://user:hush@127.0.0.1/db");
const OPERATOR: (&str, &str) = ("ANSWERABLE_OPERATOR_KEY", "operator-key-0123456789");
const SECRET: (&str, &str) = ("ANSWERABLE_SECRET_KEY", "a passphrase of more than 32 characters");

#[test]
fn serve_names_what_is_missing() {
    assert_refused(&answerable(&["serve"], &[]), "DATABASE_URL is not set");
    assert_refused(&answerable(&["serve"], &[DATABASE]), "ANSWERABLE_OPERATOR_KEY is not set");
    assert_refused(&answerable(&["serve"], &[DATABASE, OPERATOR]), "ANSWERABLE_SECRET_KEY is not set");
    assert_refused(&answerable(&["migrate"], &[]), "DATABASE_URL is not set");
}

#[test]
fn every_layer_is_checked_and_named() {
    let all = [DATABASE, OPERATOR, SECRET];
    let with = |more: (&'static str, &'static str)| [all.to_vec(), vec![more]].concat();
    let cases = [
        (&["serve", "--lease-ms", "1"][..], all.to_vec(), "--lease-ms is \"1\""),
        (&["serve", "--lease-ms", "-1"][..], all.to_vec(), "--lease-ms is \"-1\""),
        (&["serve"][..], with(("ANSWERABLE_LEASE_MS", "1")), "ANSWERABLE_LEASE_MS is \"1\""),
        (&["serve"][..], with(("ANSWERABLE_LEESE_MS", "1")), "did you mean ANSWERABLE_LEASE_MS?"),
        (&["dev"][..], vec![("ANSWERABLE_DATABASE_DIRECT_URL", DATABASE.1)], "DATABASE_URL is not"),
        (&["dev", "--database-url", "postgres://h/d?sslmod=require"][..], vec![], "did you mean sslmode?"),
        (&["dev"][..], vec![("ANSWERABLE_OPERATOR_KEY", "short")], "ANSWERABLE_OPERATOR_KEY is too short"),
        (&["serve", "--config", "gone.toml"][..], all.to_vec(), "gone.toml: "),
    ];
    for (arguments, environment, says) in cases {
        let output = answerable(arguments, &environment);
        assert_refused(&output, says);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("hush"));
    }
}

#[test]
fn the_file_in_the_working_folder_is_read() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (text, says) in [
        ("leese_ms = 1", "answerable.toml: unknown key \"leese_ms\"; did you mean lease_ms?"),
        ("lease_ms = 1", "answerable.toml: lease_ms is \"1\""),
        ("lease_ms = ", "answerable.toml: line 1: "),
    ] {
        std::fs::write(folder.path().join("answerable.toml"), text).expect("written");
        assert_refused(&answerable_in(folder.path(), &["serve"], &[DATABASE, OPERATOR, SECRET]), says);
    }
}

#[test]
fn the_client_commands_say_what_they_need() {
    assert_refused(&answerable(&["tail", "run_1"], &[]), "no API key");
    let key = ("ANSWERABLE_API_KEY", "key");
    assert_refused(
        &answerable(&["tail", "run_1"], &[key, ("ANSWERABLE_URL", "ftp://x")]),
        "no http or https URL",
    );
    let output = answerable(&["tail", "run_1", "--url", "http://user:hush@127.0.0.1:1"], &[key]);
    assert_refused(&output, "may not hold a user");
    assert_refused(
        &answerable(&["run", "--agent", "a", "--context", "[]", "x"], &[key]),
        "--context is JSON, but no object",
    );
    assert_refused(&answerable(&["run", "--agent", "a", "--metadata", "x", "x"], &[key]), "KEY=VALUE");
    // An empty variable counts as not set, here as for the server.
    let output = answerable(&["approve", "--url", "http://127.0.0.1:1"], &[key, ("ANSWERABLE_URL", "")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("no server answers at http://127.0.0.1:1") && error.lines().count() == 1,
        "{error}"
    );
}

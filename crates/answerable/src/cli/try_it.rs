//! The three lines that `answerable dev` prints to try.

/// Lines for a POSIX shell: make a model that needs no key, run an agent with it, read what happened.
pub(crate) fn lines(base: &str, key: &str) -> [String; 3] {
    let curl = format!("curl -s -H 'Authorization: Bearer {key}'");
    let json = "-H 'Content-Type: application/json'";
    let provider = r#"{"kind": "scripted", "script": [{"final": "Hello from Answerable."}]}"#;
    let run = r#"{"agent": {"name": "hello", "instructions": "Greet.", "model": {"provider": "demo", "model": "scripted"}}, "input": "Hi"}"#;
    [
        format!("{curl} {json} -X PUT {base}/v1/providers/demo -d '{provider}' -w '\\n'"),
        format!(
            "ANSWER=$({curl} {json} -H 'Prefer: wait=30' {base}/v1/runs -d '{run}'); printf '%s\\n' \"$ANSWER\"; \
             RUN=$(printf '%s' \"$ANSWER\" | grep -o 'run_[0-9a-f-]\\{{32,\\}}' | head -n 1)"
        ),
        format!("{curl} -N -H 'Accept: text/event-stream' {base}/v1/runs/$RUN/events"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_shell_takes_them_and_the_bodies_are_json() {
        for line in lines("http://127.0.0.1:8080", "key") {
            let checked =
                std::process::Command::new("sh").args(["-n", "-c", &line]).status().expect("sh runs");
            assert!(checked.success(), "{line}");
            let body = line.split(" -d '").nth(1).and_then(|rest| rest.split('\'').next());
            if let Some(body) = body {
                serde_json::from_str::<Value>(body).expect("JSON");
            }
        }
    }
}

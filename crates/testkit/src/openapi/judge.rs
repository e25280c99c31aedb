//! Judging one exchange.

use serde_json::Value;

use super::{Document, Operation, escaped};

const PROBLEM: &str = "application/problem+json";

/// What is wrong, a sentence each; `Ok` where nothing is.
pub type Verdict = Result<(), Vec<String>>;

impl Document {
    /// Judges a request that should be accepted: method, path with its query, and JSON body (null for none).
    ///
    /// # Errors
    /// Every fault found.
    pub fn judge_request(&self, method: &str, path: &str, body: &Value) -> Verdict {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let Some(operation) = self.matching(method, path) else {
            return Err(vec![format!("{method} {path} is not in the document")]);
        };
        let mut faults = self.query_faults(operation, query);
        faults.extend(self.body_faults(operation, body));
        verdict(faults)
    }

    /// Judges an answer to a request. `body` is null where there was none; text that is no JSON is not judged
    /// beyond its content type. Requests that the document does not know may only be answered with 401, 404 or,
    /// where it knows the path, 405.
    ///
    /// # Errors
    /// Every fault found.
    pub fn judge_response(
        &self,
        method: &str,
        path: &str,
        status: u16,
        content_type: Option<&str>,
        body: &Value,
    ) -> Verdict {
        let path = path.split('?').next().unwrap_or_default();
        let Some(operation) = self.matching(method, path) else {
            return self.judge_stray(path, status, content_type, body);
        };
        let pointer = format!("{}/responses/{status}", operation.pointer);
        let Some((pointer, response)) = self.resolved(&pointer) else {
            return Err(vec![format!("{method} {} does not answer {status}", operation.template.text())]);
        };
        let mut faults = self.content_faults(&pointer, response, content_type, body);
        // A page for people says it in words.
        if status >= 400 && !content_type.is_some_and(|kind| kind.starts_with("text/html")) {
            faults.extend(status_fault(status, body));
        }
        verdict(faults)
    }

    /// Judges the headers of an answer: those that the document requires must be there.
    ///
    /// # Errors
    /// Every fault found.
    pub fn judge_headers<'h>(
        &self,
        method: &str,
        path: &str,
        status: u16,
        header: impl Fn(&str) -> Option<&'h str>,
    ) -> Verdict {
        let path = path.split('?').next().unwrap_or_default();
        let mut wanted = vec!["X-Request-Id".to_owned()];
        if let Some(operation) = self.matching(method, path)
            && let Some((_, response)) = self.resolved(&format!("{}/responses/{status}", operation.pointer))
        {
            wanted.extend(self.required_headers(response));
        }
        if matches!(status, 429 | 503) {
            wanted.push("Retry-After".to_owned());
        }
        let missing = wanted.into_iter().filter(|name| header(name).is_none_or(str::is_empty));
        verdict(missing.map(|name| format!("{method} {path} answered {status} without {name}")).collect())
    }

    /// Judges a value by one of the document's named schemas: the body of a webhook, the data of an event.
    ///
    /// # Errors
    /// Every fault found.
    pub fn judge_value(&self, schema_name: &str, value: &Value) -> Verdict {
        let (pointer, schema) = self.named(schema_name)?;
        verdict(self.schemas.faults(&pointer, schema, value))
    }

    /// Whether a named schema is one that the judge can use.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn can_judge(&self, schema_name: &str) -> Verdict {
        let (pointer, schema) = self.named(schema_name)?;
        self.schemas.validator(&pointer, schema).map(drop).map_err(|fault| vec![fault])
    }

    fn named(&self, schema_name: &str) -> Result<(String, &Value), Vec<String>> {
        let pointer = format!("/components/schemas/{}", escaped(schema_name));
        match self.root.pointer(&pointer) {
            Some(schema) => Ok((pointer, schema)),
            None => Err(vec![format!("there is no schema {schema_name}")]),
        }
    }

    fn required_headers(&self, response: &Value) -> Vec<String> {
        let headers = response["headers"].as_object().into_iter().flatten();
        let is_required = |header: &Value| {
            let target = header["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
            let header = target.and_then(|to| self.root.pointer(to)).unwrap_or(header);
            header["required"] == Value::Bool(true)
        };
        headers.filter(|(_, header)| is_required(header)).map(|(name, _)| name.clone()).collect()
    }

    fn judge_stray(&self, path: &str, status: u16, content_type: Option<&str>, body: &Value) -> Verdict {
        let mut faults = Vec::new();
        let is_fitting = matches!(status, 401 | 404) || (status == 405 && self.knows_path(path));
        if !is_fitting {
            faults.push(format!("{path} is not in the document and answered {status}"));
        }
        if essence(content_type) != PROBLEM {
            faults.push(format!("{status} came as {content_type:?}"));
        }
        let pointer = "/components/schemas/Problem";
        if let Some(schema) = self.root.pointer(pointer) {
            faults.extend(self.schemas.faults(pointer, schema, body));
        }
        faults.extend(status_fault(status, body));
        verdict(faults)
    }

    fn content_faults(&self, at: &str, response: &Value, sent: Option<&str>, body: &Value) -> Vec<String> {
        let Some(content) = response["content"].as_object() else {
            return if body.is_null() { vec![] } else { vec!["there should be no body".to_owned()] };
        };
        let sent = essence(sent);
        let fits = |range: &str| range == "*/*" || range == sent;
        let Some((range, media)) = content.iter().find(|(range, _)| fits(range)) else {
            return vec![format!(
                "it came as {sent:?}, not as one of {:?}",
                content.keys().collect::<Vec<_>>()
            )];
        };
        let is_json = sent == "application/json" || sent.ends_with("+json");
        match media.get("schema") {
            Some(schema) if is_json => {
                self.schemas.faults(&format!("{at}/content/{}/schema", escaped(range)), schema, body)
            }
            _ => vec![],
        }
    }

    fn body_faults(&self, operation: &Operation, body: &Value) -> Vec<String> {
        let pointer = format!("{}/requestBody", operation.pointer);
        let Some((pointer, request)) = self.resolved(&pointer) else {
            return if body.is_null() { vec![] } else { vec!["it takes no body".to_owned()] };
        };
        if body.is_null() && request["required"] != Value::Bool(true) {
            return vec![];
        }
        let schema = &request["content"]["application/json"]["schema"];
        self.schemas.faults(&format!("{pointer}/content/application~1json/schema"), schema, body)
    }

    fn query_faults(&self, operation: &Operation, query: &str) -> Vec<String> {
        let known = self.query_parameters(operation);
        let mut faults = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let fits =
                |known: &str| known == name || known.strip_suffix("KEY").is_some_and(|p| name.starts_with(p));
            let Some((_, pointer)) = known.iter().find(|(known, _)| fits(known)) else {
                faults.push(format!("/query/{name}: unknown"));
                continue;
            };
            let Some((pointer, schema)) = self.resolved(&format!("{pointer}/schema")) else { continue };
            let is_number = schema["type"] == "integer";
            let number = value.parse::<i64>().ok().filter(|_| is_number).map(Value::from);
            let value = number.unwrap_or_else(|| Value::from(value.as_ref()));
            let found = self.schemas.faults(&pointer, schema, &value);
            faults.extend(found.into_iter().map(|fault| format!("/query/{name}{fault}")));
        }
        faults
    }

    /// Names of the parameters that may stand in the query, with the pointers of their definitions.
    fn query_parameters(&self, operation: &Operation) -> Vec<(String, String)> {
        let listed = self.root.pointer(&operation.pointer).and_then(|op| op["parameters"].as_array());
        let count = listed.map_or(0, Vec::len);
        let own = (0..count).filter_map(|n| self.resolved(&format!("{}/parameters/{n}", operation.pointer)));
        let tokens = self.root["components"]["securitySchemes"].as_object().into_iter().flatten();
        let tokens = tokens.filter(|(scheme, _)| self.takes(operation, scheme)).filter_map(|(scheme, _)| {
            self.resolved(&format!("/components/securitySchemes/{}", escaped(scheme)))
        });
        let in_query = own.chain(tokens).filter(|(_, parameter)| parameter["in"] == "query");
        in_query
            .map(|(at, parameter)| (parameter["name"].as_str().unwrap_or_default().to_owned(), at))
            .collect()
    }

    fn takes(&self, operation: &Operation, scheme: &str) -> bool {
        let security = self.root.pointer(&operation.pointer).and_then(|op| op["security"].as_array());
        security.into_iter().flatten().any(|either| either.get(scheme).is_some())
    }
}

fn status_fault(status: u16, body: &Value) -> Option<String> {
    let told = &body["status"];
    (told.as_u64() != Some(u64::from(status)))
        .then(|| format!("the problem of a {status} has the status {told}"))
}

fn essence(content_type: Option<&str>) -> String {
    content_type.and_then(|whole| whole.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

fn verdict(faults: Vec<String>) -> Verdict {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

//! Who exports: what OpenTelemetry calls the resource.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue as ProtoKeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use opentelemetry_sdk::Resource;

const NAME: &str = "service.name";
const VERSION: &str = "service.version";
const INSTANCE: &str = "service.instance.id";
/// What tells one server from another. A span may be sent by any of them, and again by another: it says the same each time.
const OF_ONE_SERVER: [&str; 6] = [INSTANCE, "host.", "process.", "container.", "k8s.pod.", "k8s.node."];

/// The service, with the attributes that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    attributes: BTreeMap<String, String>,
}

impl Service {
    /// The service by its name, `answerable` if it has none, with `attributes` (`OTEL_RESOURCE_ATTRIBUTES`), out of which
    /// `name` goes before `service.name`.
    pub fn new(name: Option<String>, attributes: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = BTreeMap::from([
            (NAME.to_owned(), "answerable".to_owned()),
            (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        all.extend(attributes);
        all.extend(name.map(|name| (NAME.to_owned(), name)));
        Self { attributes: all }
    }

    /// Its attributes, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The same on every server.
    pub(crate) fn of_spans(&self) -> ProtoResource {
        let shared =
            self.attributes().filter(|(name, _)| !OF_ONE_SERVER.iter().any(|own| name.starts_with(own)));
        let attributes = shared.map(|(name, value)| ProtoKeyValue {
            key: name.to_owned(),
            value: Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) }),
            ..ProtoKeyValue::default()
        });
        ProtoResource { attributes: attributes.collect(), ..ProtoResource::default() }
    }

    /// Of the server `instance`: each one counts for itself.
    pub(crate) fn of_metrics(&self, instance: &str) -> Resource {
        let own = (!self.attributes.contains_key(INSTANCE)).then_some((INSTANCE, instance));
        let all = self.attributes().chain(own);
        let all = all.map(|(name, value)| KeyValue::new(name.to_owned(), value.to_owned()));
        Resource::builder_empty().with_attributes(all).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: Option<&str>, attributes: &[(&str, &str)]) -> Service {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Service::new(name.map(str::to_owned), attributes)
    }

    fn named(service: &Service) -> Option<&str> {
        service.attributes().find(|(name, _)| *name == NAME).map(|(_, value)| value)
    }

    #[test]
    fn the_name_is_ours_the_attributes_or_the_one_that_was_set() {
        assert_eq!(named(&given(None, &[])), Some("answerable"));
        assert_eq!(named(&given(None, &[(NAME, "desk")])), Some("desk"));
        assert_eq!(named(&given(Some("shop"), &[(NAME, "desk")])), Some("shop"));
    }

    #[test]
    fn spans_say_nothing_of_the_server_that_sends_them() {
        let service = given(
            None,
            &[
                ("host.name", "a"),
                (INSTANCE, "1"),
                ("k8s.pod.name", "p-1"),
                ("k8s.cluster.name", "c"),
                ("team", "x"),
            ],
        );
        let names: Vec<String> = service.of_spans().attributes.into_iter().map(|pair| pair.key).collect();
        assert_eq!(names, ["k8s.cluster.name", NAME, VERSION, "team"]);
    }

    #[test]
    fn metrics_name_their_server() {
        let instance = |service: &Service| {
            let resource = service.of_metrics("srv-7");
            resource.get(&opentelemetry::Key::new(INSTANCE)).map(|value| value.to_string())
        };
        assert_eq!(instance(&given(None, &[])).as_deref(), Some("srv-7"));
        assert_eq!(instance(&given(None, &[(INSTANCE, "mine")])).as_deref(), Some("mine"));
    }
}

"""Who sent spans and metrics, and that what is compared has something of everything."""
import json

from place import check
from plays import CALLER_SPAN, CALLER_TRACE, CARD, SECOND_CARD

SERVICE = "the shop"
VARIABLES = {
    "OTEL_SERVICE_NAME": SERVICE,
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=check,host.name=one-of-many,k8s.pod.name=pod-1",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
}
SHARED = {"service.name": SERVICE, "deployment.environment.name": "check"}
OF_ONE_SERVER = {"host.name": "one-of-many", "k8s.pod.name": "pod-1"}
NAMES = {"agent.run", "context.build", "model.call", "permission.decision", "tool.call", "checkpoint.save"}
TYPES = {"string", "int", "double", "bool", "array"}


def check_identity(sink, trace):
    """Spans name the service, and not the server that sent them: any server may, and again. Metrics name both."""
    scope = trace["resourceSpans"][0]["scopeSpans"][0]["scope"]
    shared = {**SHARED, "service.version": scope["version"]}
    for part in sink.resource_spans():
        check(resource(part) == shared, f"spans came with the resource {resource(part)}")
        for of_scope in part.scope_spans:
            got = {"name": of_scope.scope.name, "version": of_scope.scope.version}
            check(got == scope, f"spans came with the scope {got}")
    for part in sink.resource_metrics():
        got = resource(part)
        instance = got.pop("service.instance.id", "")
        check(got == {**shared, **OF_ONE_SERVER} and instance, f"metrics came with the resource {got}")


def resource(part):
    return {pair.key: pair.value.string_value for pair in part.resource.attributes}


def check_variety(spans):
    """A comparison of spans that hold little would say little."""
    spans = list(spans)
    names = {span["name"] for span in spans}
    check(names == NAMES, f"the spans are {sorted(names)}")
    types = {kind for span in spans for kind, _ in span["attributes"].values()}
    check(types == TYPES, f"the types of attributes are {sorted(types)}")
    lost = {span["name"] for span in spans if span["status"][1] == "worker_lost"}
    check(lost == {"model.call", "tool.call"}, f"lost with a server: {sorted(lost)}")
    links = [span["links"] for span in spans if span["links"]]
    check(all(span["name"] == "agent.run" for span in spans if span["links"]), "a span has links that is no run")
    check([(CALLER_TRACE, CALLER_SPAN)] in links and len(links) == 2, f"the links are {links}")
    below = [span["id"] for span in spans if span["parent"] == CALLER_SPAN]
    check(len(below) == 1, f"{len(below)} spans are below the caller's")
    check_told(spans)


def check_told(spans):
    """Of two runs it is told what was said, in messages that can be read, without the cards."""
    told = [span["attributes"]["gen_ai.output.messages"][1] for span in spans if "gen_ai.output.messages" in span["attributes"]]
    check(len(told) == 6 and all(is_json(messages) for messages in told), f"{len(told)} spans tell what was said")
    check(not any(card in repr(spans) for card in (CARD, SECOND_CARD)), "a card's number is in a span")


def is_json(text):
    try:
        return bool(json.loads(text))
    except ValueError:
        return False

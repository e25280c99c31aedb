"""Spans in one form, whether the API shows them as OTLP JSON or a receiver got them as protobuf, and their comparison."""
from place import Failed, check, until

SAMPLED, REMOTE_KNOWN, REMOTE = 0x1, 0x100, 0x200


def value_of_json(value):
    """An attribute's value with its type: 3 is not "3", and 1 is not 1.0."""
    (kind, held), = value.items()
    if kind == "intValue":
        return "int", int(held)
    if kind == "arrayValue":
        return "array", tuple(value_of_json(item) for item in held["values"])
    return kind[:-len("Value")], held


def value_of_proto(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return "array", tuple(value_of_proto(item) for item in value.array_value.values)
    return kind[:-len("_value")], getattr(value, kind)


def attributes(pairs, value_of):
    pairs = list(pairs)
    known = {key: value_of(value) for key, value in pairs}
    check(len(known) == len(pairs), f"an attribute stands twice: {sorted(key for key, _ in pairs)}")
    return known


def of_json(span):
    """A span of OTLP JSON, without its flags: the API shows none."""
    status = span.get("status") or {}
    return {
        "trace": span["traceId"], "id": span["spanId"], "parent": span.get("parentSpanId", ""), "name": span["name"],
        "kind": span["kind"], "began": int(span["startTimeUnixNano"]), "ended": int(span["endTimeUnixNano"]),
        "status": (status.get("code", 0), status.get("message", "")),
        "attributes": attributes(((pair["key"], pair["value"]) for pair in span["attributes"]), value_of_json),
        "links": [(link["traceId"], link["spanId"]) for link in span.get("links", [])],
    }


def of_proto(span):
    """The same of a span that was received."""
    return {
        "trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "name": span.name,
        "kind": span.kind, "began": span.start_time_unix_nano, "ended": span.end_time_unix_nano,
        "status": (span.status.code, span.status.message),
        "attributes": attributes(((pair.key, pair.value) for pair in span.attributes), value_of_proto),
        "links": [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    }


def shown(trace):
    """The spans of a run's trace, as the API gives it."""
    return [of_json(span) for of_one in trace["resourceSpans"] for scope in of_one["scopeSpans"] for span in scope["spans"]]


def by_id(spans):
    """Spans by their place; what comes twice must be the same."""
    known = {}
    for span in spans:
        before = known.setdefault((span["trace"], span["id"]), span)
        check(before == span, f"a span came twice and was not the same:\n{before}\n{span}")
    return known


def check_flags(span):
    """Sampled; and it is known which parents and links are of other services."""
    is_remote = REMOTE if span.name == "agent.run" and span.parent_span_id else 0
    check(span.flags == SAMPLED | REMOTE_KNOWN | is_remote, f"{span.name} has the flags {span.flags:#x}")
    for link in span.links:
        check(link.flags == REMOTE_KNOWN | REMOTE, f"a link of {span.name} has the flags {link.flags:#x}")
    check(not span.trace_state and not span.events, f"{span.name} has a state or events")


def difference(wanted, got):
    """What isn't the same, in a few lines."""
    lines = [f"missing: {wanted[key]['name']} {key}" for key in wanted if key not in got]
    lines += [f"not of these runs: {got[key]['name']} {key}" for key in got if key not in wanted]
    for key in wanted.keys() & got.keys():
        lines += [f"{wanted[key]['name']} {key}, {field}: {wanted[key][field]!r} is {got[key][field]!r}"
                  for field in wanted[key] if wanted[key][field] != got[key][field]]
    return lines


def arrive(wanted, received, seconds=120):
    """Waits until all of `wanted` is in what `received` gives, and then compares exactly."""
    def all_there():
        return wanted.keys() <= by_id(received()).keys()
    try:
        until("all spans", all_there, seconds, 0.5)
    except Failed:
        pass
    lines = difference(wanted, by_id(received()))
    check(not lines, f"{len(lines)} differences between the runs' traces and what arrived:\n" + "\n".join(lines[:20]))

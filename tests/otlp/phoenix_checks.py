"""What must be so of runs in Phoenix: each is one tree, tells what it cost once, and what was said only where it may."""
import json

from place import check
from plays import CARD, SECOND_CARD
from spans import shown

KINDS = {"agent.run": "AGENT", "model.call": "LLM", "tool.call": "TOOL", "permission.decision": "GUARDRAIL",
         "context.build": "CHAIN", "checkpoint.save": "CHAIN"}
TOKENS = ("llm.token_count.prompt", "llm.token_count.completion")


class Seen:
    """A run: its spans as our API shows them, and as Phoenix does, in the order of their begin."""

    def __init__(self, world, run_id, of_trace):
        self.run_id, self.model = run_id, world.models[run_id]
        self.api = {span["id"]: span for span in shown(world.trace(run_id))}
        self.root = next(span for span in self.api.values() if span["name"] == "agent.run")
        self.trace_id = self.root["trace"]
        self.spans = sorted(of_trace[self.trace_id], key=lambda span: span["start_time"])

    def of_kind(self, kind):
        return [span for span in self.spans if span["span_kind"] == kind]

    def used(self):
        """Tokens of the run itself, in and out, by its own count."""
        return tuple(self.root["attributes"][f"answerable.{kind}_tokens"][1] for kind in ("input", "output"))


def check_tree(seen):
    """All spans are there, below the run's, of the right kinds; errors are errors."""
    ids = {span["context"]["span_id"] for span in seen.spans}
    check(ids == seen.api.keys() and len(ids) == len(seen.spans), f"{seen.model}: other spans than the run's")
    for span in seen.spans:
        api, name = seen.api[span["context"]["span_id"]], span["name"]
        check(span["span_kind"] == KINDS[name], f"{seen.model}: {name} is of kind {span['span_kind']}")
        check((span["parent_id"] or "") == api["parent"], f"{seen.model}: {name} is below {span['parent_id']}")
        check(name == "agent.run" or api["parent"] == seen.root["id"], f"{seen.model}: {name} is not below the run")
        code, message = api["status"]
        told = ("ERROR", message) if code else ("UNSET", "")
        check((span["status_code"], span["status_message"]) == told, f"{seen.model}: {name} is {span['status_code']}")


def check_totals(seen, trace):
    """Phoenix adds up to what the run used, and the run's own span adds nothing."""
    root = trace["rootSpan"]
    check(root["spanId"] == seen.root["id"], f"{seen.model}: the root is another span")
    check((trace["numSpans"], root["numChildSpans"]) == (len(seen.api), len(seen.api) - 1), f"{seen.model}: not one tree")
    check(not root["tokenCountTotal"], f"{seen.model}: the run's span has tokens of its own")
    counted = (root["cumulativeTokenCountPrompt"], root["cumulativeTokenCountCompletion"])
    check(counted == seen.used(), f"{seen.model}: Phoenix counts {counted} tokens, and the run used {seen.used()}")


def check_models(runs, replies):
    """Attempts on models have their model's name, and replies the tokens that the model told, in their order."""
    told = {}
    for seen in sorted(runs, key=lambda seen: seen.root["began"]):
        for span in seen.spans:
            counts = [span["attributes"].get(name) for name in TOKENS]
            if span["span_kind"] != "LLM":
                check(counts == [None, None], f"{seen.model}: {span['name']} has tokens")
                continue
            check(span["attributes"].get("llm.model_name") == seen.model, f"a span of {seen.model} names another model")
            check(span["attributes"].get("llm.invocation_parameters"), f"{seen.model}: no parameters")
            if counts != [None, None]:
                told.setdefault(seen.model, []).append(tuple(counts))
    for model, tokens in replies.items():
        check(told.get(model, []) == tokens, f"{model} told {tokens}, and Phoenix shows {told.get(model)}")


def check_tools(seen):
    """Calls have their tool's name, and nothing else has one."""
    for span in seen.spans:
        wanted = seen.api[span["context"]["span_id"]]["attributes"].get("gen_ai.tool.name", (None, None))[1]
        name = span["attributes"].get("tool.name")
        check(name == wanted and bool(name) == (span["span_kind"] == "TOOL"), f"{seen.model}: {span['name']} is of tool {name}")


def check_sessions(seen, trace, thread_id):
    """A conversation's runs are in one session, and others in none."""
    session = trace["session"]
    check((session or {}).get("sessionId") == thread_id, f"{seen.model}: its session is {session}")
    return session


def check_silent(seen):
    """Nothing that anybody said."""
    said = [name for span in seen.spans for name in span["attributes"]
            if name.startswith(("llm.input_messages", "llm.output_messages", "input.", "output.", "tool.parameters"))]
    check(not said, f"{seen.model}: its agent wanted no content, and there is {sorted(set(said))}")


def check_told(seen, call, result, text):
    """What was said can be read, without what is redacted."""
    charge, = seen.of_kind("TOOL")
    check(parameters(charge) == call, f"the call's input is {parameters(charge)}")
    check(json.loads(charge["attributes"]["output.value"]) == result, f"its result is {charge['attributes']['output.value']}")
    wanting, answering = (span["attributes"] for span in seen.of_kind("LLM"))
    wanted = wanting["llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments"]
    check(json.loads(wanted) == call, f"the model wanted {wanted}")
    for attributes in (answering, seen.of_kind("AGENT")[0]["attributes"]):
        check(attributes.get("llm.output_messages.0.message.content") == text, f"the answer can't be read: {attributes}")


def check_told_at_length(seen, text):
    """A long answer can be read as far as it is kept."""
    kept = seen.of_kind("AGENT")[0]["attributes"].get("llm.output_messages.0.message.content", "")
    check(len(kept) > 1_000 and text.startswith(kept), f"of the long answer can be read: {kept[:80]!r}")


def check_redacted(spans):
    everything = json.dumps(spans)
    check(CARD not in everything and SECOND_CARD not in everything, "a card's number is in Phoenix")


def parameters(span):
    """`tool.parameters`, which its API shows flat."""
    found = {}
    for name, value in span["attributes"].items():
        if name.startswith("tool.parameters."):
            *path, last = name.split(".")[2:]
            place = found
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
    return found

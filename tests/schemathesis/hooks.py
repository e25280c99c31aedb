"""What schemathesis may not hold against the server, and why: what openapi.yaml has in words only.

A request that fits the schemas may still be refused with 422 where each of its errors is one of these. All else that fits
must be taken.
"""
import itertools
import json
import os
import pathlib
import re

import schemathesis

# Each request that comes with a key has one of its own: what is generated is often the same, and answers are kept by key.
LONGEST_KEY = 240
numbers = itertools.count()
# What is generated is the same each time, so ids stand in it as numbers.
IDS = json.loads(pathlib.Path(os.environ["SCHEMATHESIS_IDS"]).read_text())

# Pointers and messages of errors, by what no schema can say.
SAID_IN_WORDS = {
    "cursors are the server's own": [(r"/query/cursor", r"is no cursor of this list")],
    "ids and names must be of things that are there": [
        (r".*", r"there is no such .*|there is no secret .*|the run has no such call|the agent has no such tool; .*"),
        (r"/stdio", r"the operator's configuration names no such command"),
    ],
    "text holds no NUL and no half of a pair": [(r".*", r"may hold neither NUL nor an unpaired surrogate|may not hold NUL")],
    "addresses must be readable": [(r".*/(base_url|url)", r"the address can't be read|not an address: .*|must be an http or https address, .*")],
    "paths of files stay below their folder": [(r"/path/path|/query/prefix", r".*")],
    "parameters that go with others": [
        (r"/query/order", r"expires goes with status=pending"),
        (r"/query/action", r"is no action, .*"),
        (r"/query/group_by", r"names some of .*"),
        (r"/header/if-none-match", r"does not go with If-Match"),
    ],
    "messages and their parts have what their kind has": [
        (r"(/run)?(/input/\d+)?/(content(/.*)?|pinned)", r".*"),
        (r"/remember(/.*)?", r"goes with the approval of a call only|is past"),
    ],
    "an agent's tools must make sense, each by its kind; how large a number may be is in the schema": [
        (r"(/run)?(/agent)?/(tools|mcp|model)/.*", r"(?!must be \d+ to \d+|at most \d+).*"),
        (r"(/run)?(/agent)?/tools/\d+/timeout_ms", r".*"),
    ],
    "what kinds of providers and servers have": [
        (r"/base_url", r"a scripted provider has none"),
        (r"/options/.*", r"unknown field .*"),
        (r"/headers/.*", r"a header has no line ends and no other controls"),
    ],
    "what the run is like": [
        (r"/budgets/.*", r"is below what the run has used already"),
        (r"/input", r"is needed: the run has answered, .*"),
        (r"/after_step", r"the run has no checkpoint after this step"),
        (r".*/agent_id", r"the agent is archived"),
    ],
    "numbers of quotas are written without a fraction": [(r"/quotas/.*", r"must be written as a whole number")],
    "cron and time zones": [(r"/timezone", r"is no name of an IANA time zone, .*"), (r"/cron", r".*")],
}
RULES = [(re.compile(pointer, re.DOTALL), re.compile(message, re.DOTALL)) for rules in SAID_IN_WORDS.values() for pointer, message in rules]


def problem(response):
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_said_in_words(error):
    return any(pointer.fullmatch(error["pointer"]) and message.fullmatch(error["message"]) for pointer, message in RULES)


def may_be_refused(case, response):
    """Whether a request that fits the schemas may be refused so."""
    found = problem(response)
    errors = found.get("errors", [])
    return (
        (response.status_code == 422 and bool(errors) and all(map(is_said_in_words, errors)))
        # The file has another version.
        or found.get("code") == "precondition_failed"
        # A form is what the page of a link sends; with a key it is JSON.
        or (response.status_code == 415 and case.media_type == "application/x-www-form-urlencoded")
    )


def put_ids(value):
    """Puts ids in place of their numbers, within what was generated: a new one would be judged anew."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, each in list(places):
        if isinstance(each, str):
            value[place] = IDS.get(each, each)
        else:
            put_ids(each)


@schemathesis.hook
def before_call(context, case, kwargs):
    for part in (case.path_parameters, case.query, case.body):
        put_ids(part)
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < LONGEST_KEY:
        case.headers["Idempotency-Key"] = f"{key}{next(numbers)}"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """False drops it."""
    path, status = case.operation.path, response.status_code
    match type(failure).__name__:
        case "RejectedPositiveData":
            return not may_be_refused(case, response)
        case "UndefinedStatusCode":
            # Heads that are too long are refused on every path, before it is looked at.
            return status not in (414, 431)
        case "ServerError" | "ContentTypeServerError":
            # It asks somebody else, who is away.
            return not (status == 503 and path == "/v1/mcp_servers/{name}/tools")
        case "IgnoredAuth":
            # A token that was tampered with names an approval that is not there. The answer is the one to the request as it
            # was; the failure tells of the one with the bad token.
            return not ("got `404 Not Found`" in failure.message and path == "/v1/approvals/{approval_id}/decision")
    return True

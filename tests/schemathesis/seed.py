#!/usr/bin/env python3
"""Fills a server with a tenant that has one of everything, so that schemathesis knows ids that are there.

seed.py URL FOLDER, with the operator's key in ANSWERABLE_OPERATOR_KEY. FOLDER gets a file a parameter, with a value a line in
quotes, `ids.json`, and `key`, the tenant's. What schemathesis makes follows from the values, so ids stand there as numbers that are
the same each time; `ids.json` says which id each is.
"""
import json
import os
import pathlib
import re
import sys
import time
import urllib.request

URL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
OPERATOR = os.environ["ANSWERABLE_OPERATOR_KEY"]
MODEL = {"provider": "writes", "model": "scripted"}
# Of everything so many, since what is found may be deleted.
TIMES = 5


class Caller:
    """Asks the server with one key."""

    def __init__(self, key):
        self.key = key

    def ask(self, method, path, body=None, media_type="application/json"):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Prefer": "wait=20"}
        if data is not None:
            headers["Content-Type"] = media_type
        request = urllib.request.Request(URL + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return json.loads(text) if text else None


def call(name, **arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def agent(provider, *tools, **more):
    return {"name": "clerk", "instructions": "You write letters.", "model": {**MODEL, "provider": provider}, "tools": list(tools),
            **more}


def fill(tenant):
    """One of everything; answers the ids by the parameter's name."""
    ids = {}
    writes = {"name": "write_file", "kind": "workspace"}
    asks = {"rules": [{"tool": "*", "effect": "ask", "reason": "a person reads every letter"}]}
    letter = call("write_file", path="letter.txt", content="Dear Ann\n" * 500)
    scripts = {"writes": [letter, {"final": "Written."}], "talks": [{"final": "Hello."}], "asks": [call("look_up", order="7"),
               {"final": "Found."}]}
    for name, script in scripts.items():
        tenant.ask("PUT", f"/v1/providers/{name}", {"kind": "scripted", "script": script})
    # Nobody listens there; what is asked of it fails at once.
    nobody = "http://127.0.0.1:9"
    tenant.ask("PUT", "/v1/mcp_servers/shop", {"url": nobody})
    tenant.ask("PUT", "/v1/secrets/shop", {"value": "s-1"})
    tenant.ask("PUT", "/v1/policy", {"rules": [{"tool": "pay", "effect": "ask", "reason": "money"}]})
    hook = tenant.ask("POST", "/v1/webhooks", {"url": nobody, "events": ["run.finished"]})
    delivery = tenant.ask("POST", f"/v1/webhooks/{hook['id']}/test", {})
    ids["webhook_id"], ids["delivery_id"] = [hook["id"]], [delivery["id"]]

    stored = tenant.ask("POST", "/v1/agents", agent("talks"))
    thread = tenant.ask("POST", "/v1/threads", {"metadata": {"order": "7"}})
    tenant.ask("PUT", f"/v1/workspaces/{thread['workspace_id']}/files/a.txt", b"mine", "text/plain")
    ids |= {"agent_id": [stored["id"]], "thread_id": [thread["id"]], "workspace_id": [thread["workspace_id"]], "path": ["a.txt"]}

    def start(**body):
        return tenant.ask("POST", "/v1/runs", {"input": "Write the letter.", **body})

    schedule = {"name": "nightly", "cron": "0 3 * * *", "run": {"agent_id": stored["id"], "input": "Write the letter."}}
    ids["schedule_id"] = [tenant.ask("POST", "/v1/schedules", schedule)["id"]]
    talked = start(agent_id=stored["id"], thread_id=thread["id"])
    short = {**writes, "output": {"max_chars": 50}}
    wrote = start(agent=agent("writes", short), thread_id=thread["id"])
    waits = [start(agent=agent("writes", writes, policy=asks)) for _ in range(3)]
    client = {"name": "look_up", "kind": "client", "input_schema": {"type": "object"}}
    looks = start(agent=agent("asks", client))
    approvals = [tenant.ask("GET", f"/v1/runs/{run['id']}/approvals")["data"][0]["id"] for run in waits]
    remembered = {"decision": "approve", "remember": {"scope": "thread", "match": "tool"}}
    in_thread = start(agent=agent("writes", writes, policy=asks), thread_id=thread["id"])
    asked = tenant.ask("GET", f"/v1/runs/{in_thread['id']}/approvals")["data"][0]["id"]
    tenant.ask("POST", f"/v1/approvals/{asked}/decision", remembered)
    ids["grant_id"] = [grant["id"] for grant in tenant.ask("GET", "/v1/grants")["data"]]
    ids["approval_id"] = [*approvals, asked]
    ids["run_id"] = [run["id"] for run in [talked, wrote, looks, in_thread, *waits]]
    ids["ledger_id"] = [entry["id"] for entry in tenant.ask("GET", f"/v1/runs/{wrote['id']}/ledger")["data"]]
    with_artifact = start(agent=agent("talks"), input=[{"role": "user", "content": [
        {"type": "file", "data": "JVBERi0=", "media_type": "application/pdf", "name": "a.pdf"}]}])
    ids["run_id"].append(with_artifact["id"])
    ids["artifact_id"] = [artifact["id"] for artifact in tenant.ask("GET", f"/v1/runs/{with_artifact['id']}/artifacts")["data"]]
    return ids


def stand_in(value, number):
    """An id of the same kind, with a number; names stand for themselves."""
    kind = re.match(r"([a-z]+_)[0-9a-f]{8}-", value)
    return f"{kind[1]}00000000-0000-7000-8000-{number:012}" if kind else value


def wait_until_ready():
    for _ in range(600):
        try:
            return urllib.request.urlopen(f"{URL}/readyz", timeout=5).close()
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{URL} is not ready after a minute")


def main():
    wait_until_ready()
    operator = Caller(OPERATOR)
    tenant = operator.ask("POST", "/v1/tenants", {"name": "acme"})["id"]
    key = operator.ask("POST", f"/v1/tenants/{tenant}/keys", {"name": "all", "scopes": ["admin"]})["secret"]
    ids = {"name": ["writes", "shop"]}
    for _ in range(TIMES):
        for name, known in fill(Caller(key)).items():
            ids[name] = sorted({*ids.get(name, []), *known})
    # The operator's operations may do to these what they like.
    others = [operator.ask("POST", "/v1/tenants", {"name": f"other {n}"})["id"] for n in range(3 * TIMES)]
    ids["tenant_id"] = others
    ids["key_id"] = [operator.ask("POST", f"/v1/tenants/{other}/keys", {"name": "k", "scopes": ["runs:read"]})["id"] for other in others]
    empty = [name for name, known in ids.items() if not known]
    if empty:
        sys.exit(f"nothing was found for {', '.join(empty)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    numbered = {}
    for name, known in ids.items():
        values = [stand_in(each, number) for number, each in enumerate(known)]
        numbered |= dict(zip(values, known))
        (FOLDER / name).write_text("".join(f'"{value}"\n' for value in values))
    (FOLDER / "ids.json").write_text(json.dumps(numbered))
    (FOLDER / "key").write_text(key)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs every query of deploy/grafana/dashboards and every alert against a Prometheus that scrapes a real server.

    deploy_queries.py PROGRAM DATABASE_URL FOLDER

Called by scripts/deploy-check.sh. Everything listens on 127.0.0.1 and ends with this program. A query must give a number:
no error, no empty answer, no NaN. What may be empty stands in MAY_BE_EMPTY with its reason.
"""
import glob
import http.server
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE_S = 120
# An expression as it stands in a dashboard → why it may give nothing here. None has a reason at the moment: the traffic
# below brings up every series.
MAY_BE_EMPTY = {}
# What Grafana puts in for its variables.
VARIABLES = {"$__rate_interval": "1m", "$__range": "5m"}
KEY = "operator-key-of-the-deploy-check"
MODEL = {"provider": "main", "model": "m", "retry": {"max_attempts": 1}}


class FarSide(http.server.BaseHTTPRequestHandler):
    """The tools that agents call, a model that refuses all, and a collector that wants every span."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/pay":
            # The line is cut: nobody knows whether it happened.
            self.close_connection = True
            return
        status = {"/missing": 404, "/v1/chat/completions": 400}.get(self.path, 200)
        body = b"" if self.path == "/v1/traces" else b'"seen"'
        kind = "application/json" if body else "application/x-protobuf"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Api:
    def __init__(self, base, key):
        self.base, self.key = base, key

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=70) as answer:
            return json.loads(answer.read() or "null")

    def status(self, path):
        try:
            with urllib.request.urlopen(self.base + path, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, look):
    """What `look` gives as soon as it is something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.25)
    sys.exit(f"error: {what} did not come within {PATIENCE_S} s")


def start_server(program, database_url, folder, port, far):
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {
        "DATABASE_URL": database_url,
        "ANSWERABLE_OPERATOR_KEY": KEY,
        "ANSWERABLE_SECRET_KEY": "5" * 64,
        "ANSWERABLE_EGRESS_ALLOW": "127.0.0.0/8",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{far}/v1/traces",
    }
    log = open(f"{folder}/server.log", "wb")
    command = [program, "serve", "--listen", f"127.0.0.1:{port}"]
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd="/")


def start_prometheus(folder, port, server):
    shutil.copy("deploy/prometheus/alerts.yml", f"{folder}/alerts.yml")
    with open(f"{folder}/prometheus.yml", "w") as config:
        config.write(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [alerts.yml]\n"
            "scrape_configs:\n"
            f"  - {{job_name: answerable, static_configs: [{{targets: ['127.0.0.1:{server}']}}]}}\n"
        )
    log = open(f"{folder}/prometheus.log", "wb")
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
               f"--web.listen-address=127.0.0.1:{port}"]
    return subprocess.Popen(command, stdout=log, stderr=log)


def tenant(operator):
    made = operator.ask("POST", "/v1/tenants", {"name": "deploy check"})
    key = operator.ask("POST", f"/v1/tenants/{made['id']}/keys", {"name": "all", "scopes": ["admin"]})
    return Api(operator.base, key["secret"])


def call(tool):
    return {"tool_calls": [{"name": tool, "arguments": {}}]}


def traffic(api, far):
    """Runs of every kind; one waits for people, and what one did is uncertain."""
    prices = {"m": {"input_microusd_per_mtok": 1_000_000, "output_microusd_per_mtok": 1_000_000}}
    tools = [
        {"name": name, "kind": "http", "http": {"url": f"http://127.0.0.1:{far}/{name}"}, "side_effect": effect}
        for name, effect in (("look", "none"), ("missing", "none"), ("pay", "write"), ("gated", "write"), ("shut", "write"))
    ]
    policy = {"rules": [{"tool": "gated", "effect": "ask"}, {"tool": "shut", "effect": "deny"}]}
    kinds = [
        ([call("look"), {"final": "Done."}], {}, "finished"),
        ([call("missing"), {"final": "It is not there."}], {}, "finished"),
        ([call("shut"), {"final": "It may not be."}], {}, "finished"),
        ([call("look")], {"max_steps": 1}, "failed"),
        ([call("pay")], {}, "failed"),
        (None, {}, "failed"),
        ([call("gated")], {}, "waiting_approval"),
    ]
    for script, budgets, wanted in kinds:
        provider = {"kind": "scripted", "prices": prices, "script": script}
        if script is None:
            provider = {"kind": "openai_chat", "base_url": f"http://127.0.0.1:{far}/v1", "api_key": "k", "prices": prices}
        api.ask("PUT", "/v1/providers/main", provider)
        agent = {"name": "a", "instructions": "Go.", "model": MODEL, "tools": tools, "policy": policy, "budgets": budgets}
        run = api.ask("POST", "/v1/runs", {"agent": agent, "input": "go"})
        # The provider is read when the run asks it: the next kind must not take its place before.
        until(f"the run that is to be {wanted}", lambda: ended(api, run["id"], wanted))
    api.status("/v1/no-such-thing")


def ended(api, run_id, wanted):
    return api.ask("GET", f"/v1/runs/{run_id}/wait?timeout=5")["status"] == wanted


def queries():
    """(dashboard, panel, expression) of every query."""
    for path in sorted(glob.glob("deploy/grafana/dashboards/*.json")):
        with open(path) as file:
            board = json.load(file)
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield os.path.basename(path), panel["title"], target["expr"]


def evaluate(prometheus, expression):
    """Its fault, or None."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=10) as answer:
            result = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        return f"is no query: {json.load(error).get('error')}"
    if not result:
        return "gives nothing"
    if all(math.isnan(float(sample["value"][1])) for sample in result):
        return "gives no number"
    return None


def check_queries(prometheus, again):
    """Asks all of them until all give something; `again` brings more traffic, so that rates have something to show."""
    waiting = {expression: (board, panel) for board, panel, expression in queries()}
    count, deadline, faults = len(waiting), time.monotonic() + PATIENCE_S, {}
    while waiting and time.monotonic() < deadline:
        again()
        faults = {expression: evaluate(prometheus, expression) for expression in waiting}
        waiting = {expression: place for expression, place in waiting.items() if faults[expression]}
        time.sleep(1)
    for expression, (board, panel) in waiting.items():
        if expression in MAY_BE_EMPTY and faults[expression] == "gives nothing":
            print(f"  {board}, {panel!r} gives nothing: {MAY_BE_EMPTY[expression]}")
        else:
            print(f"error: {board}, {panel!r} {faults[expression]}: {expression}", file=sys.stderr)
    return count, [expression for expression in waiting if expression not in MAY_BE_EMPTY]


def check_rules(prometheus):
    def evaluated():
        with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=10) as answer:
            groups = json.load(answer)["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = until("the rules", evaluated)
    faults = [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule["health"] != "ok"]
    for fault in faults:
        print(f"error: alert {fault}", file=sys.stderr)
    firing = sorted(rule["name"] for rule in rules if rule["state"] != "inactive")
    print(f"  {len(rules)} alerts evaluated; pending or firing after this traffic: {', '.join(firing) or 'none'}")
    return faults


def main(program, database_url, folder):
    far = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FarSide)
    threading.Thread(target=far.serve_forever, daemon=True).start()
    server_port, prometheus_port = free_port(), free_port()
    base, prometheus = f"http://127.0.0.1:{server_port}", f"http://127.0.0.1:{prometheus_port}"
    children = [start_server(program, database_url, folder, server_port, far.server_port)]
    try:
        operator = Api(base, KEY)
        until("the server", lambda: operator.status("/readyz") == 200)
        children.append(start_prometheus(folder, prometheus_port, server_port))
        until("Prometheus", lambda: Api(prometheus, "").status("/-/ready") == 200)
        api = tenant(operator)
        count, faults = check_queries(prometheus, lambda: traffic(api, far.server_port))
        faults += check_rules(prometheus)
        if faults:
            sys.exit(f"error: {len(faults)} of {count} queries or of the alerts don't hold")
        print(f"  {count} queries give numbers")
    finally:
        for child in reversed(children):
            child.terminate()
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                child.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])

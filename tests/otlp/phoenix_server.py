"""Arize Phoenix as a process, and what it shows through its API."""
import json
import os
import sys
import urllib.parse
import urllib.request

from place import check, free_port, until

START_S = 180
PROJECT = "default"
PROJECTS = "{projects {edges {node {id name traceCount recordCount tokenCountPrompt tokenCountCompletion sessionCount}}}}"
TRACE = """query ($project: ID!, $trace: ID!) {node(id: $project) {... on Project {trace(traceId: $trace) {
    numSpans
    session {sessionId numTraces tokenUsage {prompt completion}}
    rootSpan {spanId numChildSpans statusCode tokenCountTotal cumulativeTokenCountPrompt cumulativeTokenCountCompletion}
}}}}"""


class Phoenix:
    """Listens on loopback, keeps all in the folder of the place, and tells nobody of it."""

    def __init__(self, place):
        self.place, self.port = place, free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        home = place.path("phoenix")
        os.mkdir(home)
        environment = {
            "HOME": home, "PHOENIX_WORKING_DIR": home, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false", "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
            "PHOENIX_AGENTS_DISABLE_WEB_ACCESS": "true",
        }
        command = [os.path.join(os.path.dirname(sys.executable), "phoenix"), "serve"]
        self.process = place.run("phoenix", command, environment)
        until("Phoenix", self.is_ready, START_S, 0.5)

    def is_ready(self):
        check(self.process.poll() is None, f"Phoenix ended with {self.process.returncode}")
        try:
            return "data" in self.ask(PROJECTS)
        except OSError:
            return False

    def ask(self, query, **variables):
        """GraphQL."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.base}/graphql", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            answered = json.load(answer)
        check(not answered.get("errors"), f"Phoenix doesn't understand {query}: {answered.get('errors')}")
        return answered

    def project(self):
        """The project with its totals; None until there is one."""
        edges = self.ask(PROJECTS)["data"]["projects"]["edges"]
        return next((edge["node"] for edge in edges if edge["node"]["name"] == PROJECT), None)

    def trace(self, trace_id):
        return self.ask(TRACE, project=self.project()["id"], trace=trace_id)["data"]["node"]["trace"]

    def spans(self):
        """All spans with their attributes, as its REST API gives them."""
        spans, cursor = [], None
        while True:
            query = urllib.parse.urlencode({"limit": 500, **({"cursor": cursor} if cursor else {})})
            with urllib.request.urlopen(f"{self.base}/v1/projects/{PROJECT}/spans?{query}", timeout=30) as answer:
                page = json.load(answer)
            spans, cursor = spans + page["data"], page["next_cursor"]
            if not cursor:
                return spans

"""Answerable itself: the real program on a database of its own, and its API."""
import json
import urllib.error
import urllib.request

from place import Failed, check, end, free_port, until

OPERATOR_KEY = "operator-key-of-the-otlp-checks"


class Api:
    """The public API with one key."""

    def __init__(self, base, key):
        self.base, self.key = base, key

    def ask(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        given = {"authorization": f"Bearer {self.key}", "content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.base + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            raise Failed(f"{method} {path} answered {error.code}: {error.read().decode(errors='replace')}") from error

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def put(self, path, body):
        return self.ask("PUT", path, body)

    def run(self, run_id, wanted):
        """The run, once its status is `wanted`; another end is none."""
        def look():
            run = self.get(f"/v1/runs/{run_id}/wait?timeout=5")
            over = run["status"] in ("finished", "failed", "cancelled")
            check(run["status"] == wanted or not over, f"a run is {run['status']}, not {wanted}: {run['error']}")
            return run if run["status"] == wanted else None
        return until(f"a run that is {wanted}", look, 90)

    def trace(self, run_id):
        """A run's spans as OTLP JSON."""
        return self.get(f"/v1/runs/{run_id}/trace")


class Server:
    """A process on `database_url`, with the variables of OpenTelemetry in `otel`."""

    def __init__(self, place, program, database_url, otel, name="server"):
        self.place, self.program, self.name = place, program, name
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.environment = {
            "DATABASE_URL": database_url,
            "ANSWERABLE_OPERATOR_KEY": OPERATOR_KEY,
            "ANSWERABLE_SECRET_KEY": "5" * 64,
            "ANSWERABLE_EGRESS_ALLOW": "127.0.0.0/8",
            # Short, so that the runs of a server that was killed go on soon.
            "ANSWERABLE_LEASE_MS": "1500",
            "ANSWERABLE_DRAIN_MS": "5000",
            **otel,
        }
        self.process = None
        self.start()

    def start(self):
        command = [self.program, "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = self.place.run(self.name, command, self.environment)
        until("the server", self.is_ready)

    def is_ready(self):
        check(self.process.poll() is None, f"the server ended with {self.process.returncode}")
        try:
            with urllib.request.urlopen(f"{self.base}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        """SIGKILL."""
        self.process.kill()
        self.process.wait(timeout=15)

    def stop(self):
        """SIGTERM: it drains first."""
        end(self.process, 30)
        check(self.process.returncode == 0, f"the server ended with {self.process.returncode}")

    def metric(self, name):
        """The sum of a metric's series as Prometheus reads them; None where it has none."""
        with urllib.request.urlopen(f"{self.base}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        series = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in series) if series else None

    def tenant(self, name, **more):
        """A new tenant's API, with its key of scope `admin`."""
        operator = Api(self.base, OPERATOR_KEY)
        made = operator.post("/v1/tenants", {"name": name, **more})
        key = operator.post(f"/v1/tenants/{made['id']}/keys", {"name": "all", "scopes": ["admin"]})
        return Api(self.base, key["secret"])

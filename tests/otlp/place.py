"""Where a check runs: a temporary folder, a private PostgreSQL's databases, and processes that end with it."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

# All is on loopback, whatever proxy the environment names.
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))


class Failed(Exception):
    """What is checked does not hold."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def until(what, look, seconds=60, every=0.1):
    """What `look` gives as soon as it is something."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        check(time.monotonic() < deadline, f"{what} did not come within {seconds} s")
        time.sleep(every)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port):
    """Somebody listens on the port."""
    with socket.socket() as line:
        line.settimeout(1)
        return line.connect_ex(("127.0.0.1", port)) == 0


def ending_with_us(command):
    """The command so that it doesn't outlive this program, not even its SIGKILL, where the system knows how."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


class Place:
    """A folder and its processes. Leaving it ends them and takes the folder away."""

    def __init__(self, postgres_bin, cluster):
        self.postgres_bin, self.cluster = postgres_bin, cluster
        self.folder = tempfile.mkdtemp(prefix="answerable-otlp-")
        self.children = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        for child in reversed(self.children):
            end(child)
        if kind is not None and issubclass(kind, Failed):
            self.show_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, command, environment=None):
        """A process that writes to the file `name`.log in the folder."""
        known = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with open(self.path(f"{name}.log"), "ab") as log:
            child = subprocess.Popen(ending_with_us(command), env={**known, **(environment or {})}, cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def log(self, name):
        with open(self.path(f"{name}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def show_logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                tail = self.log(name[:-4]).splitlines()[-15:]
                print("\n".join([f"--- the end of {name}"] + [line[:300] for line in tail]), flush=True)

    def database(self, name):
        """The URL of a new database."""
        command = [f"{self.postgres_bin}/psql", "-X", "-q", "-h", self.cluster, "-U", "postgres", "-d", "postgres",
                   "-c", f"CREATE DATABASE {name} TEMPLATE template0"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60)
        host = self.cluster.replace("/", "%2F")
        return f"postgres://postgres@localhost:5432/{name}?host={host}&sslmode=disable"


def end(child, seconds=15):
    """Asks a process to end, and ends it where it doesn't."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(timeout=seconds)


def end_as_asked():
    """Signals end this program with all that it started."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop(number, _):
        # Once: `timeout` asks twice, and the second time would cut the ending short.
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, stop)

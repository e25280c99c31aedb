"""The far side: a model that speaks OpenAI's wire and the tools of a shop, both scripted, over plain HTTP."""
import http.server
import json
import threading

from place import until

LONGEST_HOLD_S = 60


def says(text, tokens, cached=0):
    """A model's last words; `tokens` are (input, output), and `cached` is the part of the input that was."""
    return {"message": {"role": "assistant", "content": text}, "finish": "stop", "tokens": tokens, "cached": cached}


def calls(tokens, *wanted, cached=0):
    """A reply that wants tools: (name, arguments) each."""
    each = [{"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(wanted)]
    message = {"role": "assistant", "content": None, "tool_calls": each}
    return {"message": message, "finish": "tool_calls", "tokens": tokens, "cached": cached}


def answers(body, status=200):
    """What a tool or a model answers."""
    return {"status": status, "body": body}


def held(answer):
    """The same, once the far side is told to let go."""
    return {**answer, "held": True}


CUT = {"cut": True}


class Far:
    """Listens on loopback. What is scripted for a name comes in its order; the last answer repeats."""

    def __init__(self):
        self.scripts, self.requests = {}, {}
        self.lock, self.released = threading.Lock(), threading.Event()
        handler = type("Handler", (Handler,), {"far": self})
        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.listener.daemon_threads = True
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.listener.server_port}"

    def script(self, name, *answers):
        with self.lock:
            self.scripts[name], self.requests[name] = list(answers), 0

    def take(self, name):
        with self.lock:
            script = self.scripts.get(name)
            if not script:
                return None
            self.requests[name] += 1
            return script.pop(0) if len(script) > 1 else script[0]

    def reached(self, name, count=1):
        """Waits until that many requests for `name` have come."""
        until(f"request {count} for {name}", lambda: self.requests.get(name, 0) >= count)

    def let_go(self):
        """Lets go what is held now."""
        self.released.set()
        self.released = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    far = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        is_model = self.path.startswith("/v1/")
        name = json.loads(body)["model"] if is_model else self.path.rsplit("/", 1)[-1]
        answer = self.far.take(name) or answers({"error": {"message": f"nothing is scripted for {name}"}}, 501)
        if answer.get("held"):
            self.far.released.wait(LONGEST_HOLD_S)
        if answer.get("cut"):
            # Nobody knows whether it happened.
            self.close_connection = True
            return
        if "message" in answer:
            answer = answers(completion(name, answer))
        self.answer(answer)

    def answer(self, answer):
        body = json.dumps(answer["body"]).encode()
        try:
            self.send_response(answer["status"])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # Whoever asked is gone.
            self.close_connection = True

    def log_message(self, *_):
        pass


def completion(model, reply):
    given, said = reply["tokens"]
    usage = {"prompt_tokens": given, "completion_tokens": said, "total_tokens": given + said}
    if reply["cached"]:
        usage["prompt_tokens_details"] = {"cached_tokens": reply["cached"]}
    choice = {"index": 0, "message": reply["message"], "finish_reason": reply["finish"]}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}

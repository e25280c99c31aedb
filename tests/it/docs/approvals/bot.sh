# What the bot doesn't know, what it can't show, and signatures that are none.
python3 - <<'END'
import base64, hashlib, hmac, json, pathlib, time, urllib.error, urllib.request

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
pathlib.Path("signing-secret").write_text(SECRET)

def send(event, sent="msg_1", signature=None):
    """The status of a webhook that is sent, signed unless another signature is given."""
    body, at = json.dumps(event).encode(), str(int(time.time()))
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = hmac.new(key, f"{sent}.{at}.".encode() + body, hashlib.sha256).digest()
    signed = "v1,of-an-older-key v1," + base64.b64encode(mac).decode()
    headers = {"webhook-id": sent, "webhook-timestamp": at, "webhook-signature": signature or signed}
    return post("/hook", body, headers)[0]

def post(path, body, headers):
    request = urllib.request.Request("http://127.0.0.1:9000" + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()

def asked(id, **more):
    approval = {"id": id, "kind": "tool_call", "tool_name": "write_file", "reason": "why", "required": 1,
                "input_hash": "sha256:00", **more}
    return {"type": "approval.requested", "data": {"approval": approval, "decision_url": "http://127.0.0.1:1/"}}

statuses = [
    send({"type": "webhook.test", "data": {}}),
    send({"type": "run.finished", "data": {"run": {}}}),
    send(asked("apr_1")),
    send(asked("apr_2", input={"content": "Dear Bob"}, required=2)),
    send(asked("apr_3"), signature="v1,\u00e9"),
    send(asked("apr_3"), signature="v1,AAAA"),
]
cards = json.load(urllib.request.urlopen("http://127.0.0.1:9000/cards", timeout=30))["cards"]
press = json.dumps({"card": "apr_1", "button": "approve", "user": "ann"}).encode()
pressed = json.loads(post("/press", press, {})[1])
print(json.dumps({"statuses": statuses, "cards": cards, "pressed": pressed}))
END

# Rows that nobody can read, a table that is away, a row that spoils every request that it is in: the letters are decided.
api /webhooks -d '{"url": "http://127.0.0.1:9000/", "events": ["approval.requested"], "include_input": true}' |
  sed 's/.*"signing_secret":"\([^"]*\)".*/\1/' >signing-secret
cat >meddle.py <<'END'
import base64, contextlib, hashlib, hmac, json, pathlib, sqlite3, sys, time, urllib.error, urllib.request

SECRET = pathlib.Path("signing-secret").read_text().strip()

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

def rows(statement, *values):
    with contextlib.closing(sqlite3.connect("queue.db", timeout=30)) as queue, queue:
        return queue.execute(statement, values).fetchall()

def until(done):
    while not done():
        time.sleep(0.05)

def outcome(row):
    return rows("SELECT outcome FROM queue WHERE webhook_id = ?", row)[0][0]

LETTER = {"id": "apr_1", "kind": "tool_call", "tool_name": "write_file", "required": 1, "input_hash": "sha256:00"}

def before():
    asked = {"type": "approval.requested", "data": {"approval": LETTER}}
    statuses = [send({"type": "webhook.test", "data": {}}), send({"type": "run.finished", "data": {"run": {}}}),
                send(asked, "no input"), send(asked, "forged", "v1,\u00e9")]
    pathlib.Path("statuses.json").write_text(json.dumps(statuses))
    plain = {**LETTER, "input": {"content": "Dear Bob"}}
    for row, text in {"not JSON": "{", "no approval": "[7]", "nobody's": json.dumps(plain),
                      "refused with all others": json.dumps({**plain, "input_hash": 7})}.items():
        rows("INSERT INTO queue (webhook_id, approval) VALUES (?, ?)", row, text)
    until(lambda: rows("SELECT tries FROM queue WHERE webhook_id = 'refused with all others'")[0][0] > 1)
    rows("ALTER TABLE queue RENAME TO away")
    time.sleep(1)
    rows("ALTER TABLE away RENAME TO queue")

def after():
    until(lambda: outcome("nobody's"))
    others = ["not JSON", "no approval", "no input", "nobody's", "refused with all others"]
    letters = rows("SELECT outcome FROM queue WHERE webhook_id LIKE 'dlv_%' ORDER BY rowid")
    print(json.dumps({"statuses": json.loads(pathlib.Path("statuses.json").read_text()),
                      "letters": [outcome for outcome, in letters], "others": {row: outcome(row) for row in others}}))

{"before": before, "after": after}[sys.argv[1]]()
END
python3 meddle.py before
for NAME in Bob Eve; do
  steps "$(letter "Dear $NAME, all is well.")" >steps.json
done
python3 meddle.py after

# The headers of the page, a form that is too long, one that doesn't say how long it is, and whether the page still lives.
status() { curl -sS -o body.txt -w '%{http_code}\n' -H 'x-user: ann' "$@"; }
head -c 5000000 /dev/zero | tr '\0' x >long.txt
{
  status -D headers.txt http://127.0.0.1:9000/
  status http://127.0.0.1:9000/decide --data-binary @long.txt
  status http://127.0.0.1:9000/decide -H 'transfer-encoding: chunked' -d 'decision=deny'
  status http://127.0.0.1:9000/
} >statuses.txt
python3 - <<'END'
import json
lines = [line.split(": ", 1) for line in open("headers.txt").read().splitlines() if ": " in line]
statuses = [int(line) for line in open("statuses.txt")]
print(json.dumps({**{name.lower(): value for name, value in lines}, "statuses": statuses}))
END

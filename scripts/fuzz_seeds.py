#!/usr/bin/env python3
"""Writes what the fuzz targets begin with: the recorded exchanges of the wires, requests, and a few documents.

fuzz_seeds.py FOLDER makes FOLDER/TARGET/… anew.
"""
import hashlib
import json
import pathlib
import sys

EXCHANGES = pathlib.Path(__file__).parent.parent / "crates/models/tests/exchanges"
# Requests to the API, by target, as lists of lines; a line that is no text is JSON.
REQUESTS = pathlib.Path(__file__).parent.parent / "tests/fuzz/seeds.json"
# The target of each wire's answers.
WIRES = {"openai_chat": "chat", "openai_responses": "responses", "anthropic": "messages"}
DOCUMENTS = {
    "template": ["order:{{context.user_id}}:{{ input.cart.0 }}", "{{idempotency_key}}{{secret.x}}", "plain {{"],
    "schema": [
        '[{"type": "object", "required": ["lines"], "properties": {"lines": {"type": "array", "minItems": 1,'
        ' "items": {"$ref": "#/$defs/line"}}}, "$defs": {"line": {"properties": {"n": {"type": "integer", "maximum": 9},'
        ' "under": {"$ref": "#"}}}}}, {"lines": [{"n": 1, "under": {"lines": []}}]}, {}]',
        '[{"anyOf": [{"$ref": "#"}, {"const": 12345678901234567890}], "not": {"format": "date-time"}, "pattern": "^a+$"}, 1e400, "aaa!"]',
        '{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"multipleOf": 0.01}], "additionalItems": false}',
        '[{"patternProperties": {"^a": {"type": ["string", "null"]}}, "propertyNames": {"maxLength": 3}, "if": {"minProperties": 2},'
        ' "then": {"unevaluatedProperties": false}, "dependentSchemas": {"a": {"required": ["b"]}}}, {"a": null, "long/name": 1}]',
        '[{"oneOf": [{"type": "integer"}, {"enum": [1, "a", null]}], "prefixItems": [true, false], "contains": {}}, [1, 2], "a"]',
    ],
    "paths": ["notes/2026/a file (1).txt", "/a/b/c", "a/../b", "./a//b", "a\\b", "größe/\u202e.txt", "a/.../..b/.c"],
    "input": [
        '"hello"',
        '[{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "url": "https://x.example/a.png"}]},'
        ' {"role": "assistant", "content": "so"}, {"role": "user", "content": "on", "pinned": true}]',
        '[{"role": "user", "content": [{"type": "file", "data": "JVBERi0=", "media_type": "application/pdf", "name": "a.pdf"}]}]',
    ],
    "options": [
        '{"stream": false, "send_reasoning": true, "structured_output": "off", "path": "v1/x", "key_header": "api-key"}',
        '{"cache_control": "1h", "version": "2023-06-01", "parallel_tool_calls": false}',
        '{"system_role": "user", "max_tokens_field": "max_completion_tokens", "strict_tools": true, "images": false}',
    ],
    "refusal": ['{"error": {"message": "This model\'s maximum context length is 4096 tokens.", "code": "context_length_exceeded"}}',
                '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', "<html>Bad Gateway</html>"],
}


def main():
    folder = pathlib.Path(sys.argv[1])

    def write(target, text):
        path = folder / target / hashlib.sha256(text.encode()).hexdigest()[:16]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for target, texts in DOCUMENTS.items():
        for text in texts:
            write(target, text)
    for target, seeds in json.loads(REQUESTS.read_text()).items():
        for lines in seeds:
            write(target, "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    for file in sorted(EXCHANGES.glob("*/*.json")):
        exchange = json.loads(file.read_text())
        target = WIRES[file.parent.name]
        if "answer" in exchange:
            answer = json.dumps(exchange["answer"], ensure_ascii=False)
            write(target, answer)
            write("json", answer)
        if "stream" in exchange:
            stream = exchange["stream"]
            text = stream if isinstance(stream, str) else "".join(line + "\n" for line in stream)
            write(target, text)
            write("sse", text)
        extra = exchange.get("reply", {}).get("extra")
        if extra:
            write("kept", json.dumps(extra, ensure_ascii=False))


if __name__ == "__main__":
    main()

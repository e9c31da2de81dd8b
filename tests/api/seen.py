"""Asserts that the run met what is documented: each answer below 500 of each operation.

Usage: seen.py DOCUMENT SEEN
"""

import json
import sys

# Nothing that the document describes leads there without tokens, limits, bodies, operators and a
# namespace default that counts; the HTTP tests own them.
ELSEWHERE = {
    "forbidden",
    "not_found",
    "payload_too_large",
    "request_timeout",
    "retired_code",
    "too_many_codes",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
    "uri_too_long",
}

document, seen = (json.load(open(path)) for path in sys.argv[1:])
missed, met = [], 0
for path, item in document["paths"].items():
    for method, operation in item.items():
        for status, response in operation["responses"].items():
            name = f"{method.upper()} {path} {status}"
            if status >= "500":
                continue
            contents = response.get("content", {})
            answers = [media for media in contents if media != "application/problem+json"]
            answers += response.get("x-codes", [])
            for answer in [a for a in answers if a not in ELSEWHERE]:
                met += 1
                if f"{name} {answer}" not in seen:
                    missed.append(f"{name} {answer}")

failed = [answer for answer in seen if answer.split()[2] >= "500"]
if missed or failed:
    sys.exit("\n".join(["documented, but never answered:", *missed, "answered:", *failed]))
print(f"seen.py: {met} documented answers were met, none of them 5xx")

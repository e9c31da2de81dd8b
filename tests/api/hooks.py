"""What the document says in words only: which parameters go together, and which texts are IDs.

A request that is meant to be right is mended where it is wrong in such a way; one that is meant to
be wrong goes out as it is. What was answered is written to the file that RAINDROP_SEEN names.
"""

import atexit
import base64
import json
import os
import re
import zlib
from collections import Counter
from datetime import datetime, timedelta

import schemathesis

NAMESPACES = {"default": True, "js": True, "past": True, "qr": False, "numbers": False}
UUIDS = ("uuid7", "typeid")
BOUND = {"count": ("numbers", ""), "invoice": ("numbers", "INV-"), "ticket": ("js", "T-")}
DIGITS = {
    "decimal": "0123456789",
    "base32": "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    "base36": "0123456789abcdefghijklmnopqrstuvwxyz",
    "base62": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "base62-sorted": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
}
# What custom layouts take, whatever else is chosen.
LAYOUT = {
    "timestamp_bits": (41, 42),
    "data_center_bits": (0, 3),
    "data_center": (0, 1),
    "worker_bits": (3, 9),
    "rollback_bits": (0, 3),
    "rollback_initial": (0, 1),
    "reserved_bits": (0, 2),
    "reserved_value": (0, 1),
    "min_sequence": (0, 3),
    "max_sequence": (3, 9),
}
FOREIGN_LAYOUTS = [
    "sonyflake",
    "leaf",
    "twitter",
    "time:39@10ms,sequence:8,worker:16",
    "worker:10,time:41,sequence:12",
]
seen = Counter()


def number_of(*what):
    """A number that is the same for the same request, in every run."""
    return zlib.crc32(repr(what).encode())


def pick(case, *choices):
    """One of these; the first for what the document gives as an example."""
    if case.meta.phase.name.value == "examples":
        return choices[0]
    return choices[number_of(case.path_parameters, case.query) % len(choices)]


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None:
        return
    query = case.query if isinstance(case.query, dict) else {}
    path = case.operation.path
    if not case.meta.generation.mode.is_positive:
        # A wrong layout or code would be reported before an ID that is wrong in every encoding.
        if path == "/parse/{id}" and not re.fullmatch(r"[\w.:=-]*", str(case.path_parameters["id"])):
            for name in ("layout", "epoch", "code"):
                query.pop(name, None)
        return
    if "namespace" in query:
        query["namespace"] = pick(case, *NAMESPACES, *NAMESPACES, query["namespace"])
    if path in ("/id/{code}", "/ids/{code}"):
        mend_issuing(case, query)
    elif path == "/parse/{id}":
        mend_parsing(case, query)
    elif path == "/bounds":
        mend_span(case, query)
    elif path == "/plan":
        mend_layout(case, query)


def mend_issuing(case, query):
    scene = pick(case, "as it is", "bound", "unknown", "number", "text", "past", "strict")
    code = case.path_parameters["code"]
    if scene == "bound":
        code = case.path_parameters["code"] = pick(case, *BOUND)
        query.pop("namespace", None)
        # No UUID has a plain number.
        if pick(case, False, True):
            query["encoding"] = "uuid7"
    elif scene == "strict" and case.method == "POST":
        # In words alone: it has neither GET nor ranges.
        code = case.path_parameters["code"] = "receipt"
        query["namespace"] = "numbers"
        for name in ("format", "up_to", "at"):
            query.pop(name, None)
    elif scene == "unknown":
        query["namespace"] = "numbers"
        query.pop("at", None)
    elif scene == "number":
        # In words alone; where it would be answered, the document knows texts only.
        query["format"] = "number"
        query["namespace"] = "default"
        query.pop("at", None)
    elif scene == "text" and query.get("format") != "range":
        case.headers["Accept"] = "text/plain"
    elif "at" in query:
        query["namespace"] = "past"
        since = datetime(2025, 6, 1) + timedelta(minutes=number_of(query) % 200_000)
        query["at"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")

    namespace, prefix = BOUND.get(code, (query.get("namespace", "default"), ""))
    if query.get("encoding") == "friendly" and not NAMESPACES.get(namespace, True):
        del query["encoding"]
    if query.get("encoding") in ("base62", "base64url", "friendly"):
        query.pop("padded", None)
    if prefix and query.get("format") == "number":
        del query["format"]
    if query.get("format") in ("number", "range"):
        query.pop("padded", None)
        query.pop("encoding", None)
    for name in [name for name in case.headers if name.lower() == "idempotency-key"]:
        # The document does not know which codes are strict, nor what the key is without quotes and blanks.
        if code != "receipt":
            del case.headers[name]
        elif not re.fullmatch(r"[!#-~][!-~]*", str(case.headers[name])):
            case.headers[name] = '"document-1"'
    if "up_to" in query:
        if query.get("format") == "range" and "n" not in query and "at" not in query:
            # A small layout allows fewer than the setting.
            query["up_to"] = min(int(query["up_to"]), 1000)
        else:
            del query["up_to"]


def mend_parsing(case, query):
    number = number_of(case.path_parameters["id"]) * pick(case, 1, 1 << 21, (1 << 31) - 1)
    if "code" in query:
        # The form of the code's texts says how to read one.
        for name in ("encoding", "layout", "epoch"):
            query.pop(name, None)
        query["code"] = pick(case, "bill", "bill", query["code"])
        if query["code"] == "bill":
            query.pop("namespace", None)
            case.path_parameters["id"] = f"BILL-{number % 1_000_000:04}"
        return
    if "layout" in query:
        query.pop("namespace", None)
        query["layout"] = pick(case, *FOREIGN_LAYOUTS)
    else:
        query.pop("epoch", None)
    if query.get("encoding") in ("friendly", *UUIDS):
        del query["encoding"]
    case.path_parameters["id"] = encoded(number, query.get("encoding", "decimal"))


def mend_span(case, query):
    # Their texts do not sort as their IDs do.
    if query.get("encoding") in ("base62", "base64url", "friendly"):
        del query["encoding"]
    # A time that wraps has no UUIDs.
    if query.get("encoding") in UUIDS:
        query["namespace"] = pick(case, "default", "qr")
    # Most instants are outside every layout's time.
    if pick(case, True, True, False):
        for end in ("from", "to"):
            year = 2026 + number_of(query[end]) % 60
            query[end] = f"{year}{query[end][4:]}".replace("02-29", "02-28")
    if instant(query["from"]) > instant(query["to"]):
        query["from"], query["to"] = query["to"], query["from"]


def mend_layout(case, query):
    for name, (low, high) in LAYOUT.items():
        if name in query:
            query[name] = low + number_of(name, query[name]) % (high - low + 1)
    if "time_unit" in query:
        query.pop("timestamp_bits", None)
    if "preset" in query:
        for name in ["time_unit", "order", "rollback_initial", *LAYOUT]:
            query.pop(name, None)
    # Constants need bits.
    for constant, bits in (("data_center", "data_center_bits"), ("reserved_value", "reserved_bits")):
        if not query.get(bits):
            query.pop(constant, None)
    if query.get("rollback_bits") == 0:
        query.pop("rollback_initial", None)


def encoded(number, encoding):
    if encoding == "hex":
        return f"{number:016x}"
    if encoding == "base64url":
        return base64.urlsafe_b64encode(number.to_bytes(8, "big")).decode().rstrip("=")
    digits, text = DIGITS[encoding], ""
    while number or not text:
        number, digit = divmod(number, len(digits))
        text = digits[digit] + text
    return text


def instant(text):
    return datetime.fromisoformat(text.upper())


@schemathesis.hook
def after_call(context, case, response):
    content_type = response.headers.get("content-type", [""])[0].split(";")[0]
    code = response.json()["code"] if content_type.endswith("problem+json") and response.content else ""
    seen[f"{case.method} {case.operation.path} {response.status_code} {code or content_type}"] += 1


@atexit.register
def write_seen():
    if path := os.environ.get("RAINDROP_SEEN"):
        with open(path, "w") as file:
            json.dump(dict(sorted(seen.items())), file, indent=1)

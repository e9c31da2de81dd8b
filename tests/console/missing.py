"""Routes that this branch does not have yet, answered by the test. To be removed with its one use in
browser.py when they are merged."""

import json
import os
import subprocess
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, urlsplit

FLAGS = ["preset", "time_unit", "epoch", "timestamp_bits", "worker_bits", "data_center_bits"]
FLAGS += ["rollback_bits", "reserved_bits", "min_sequence", "max_sequence"]


def _problem(route, status, code, detail):
    body = {"type": f"urn:raindrop:problem:{code}", "status": status, "title": code, "code": code, "detail": detail}
    route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))


def _plan(route):
    given = dict(parse_qsl(urlsplit(route.request.url).query))
    arguments = [f"--{name.replace('_', '-')}={given[name]}" for name in FLAGS if name in given]
    run = subprocess.run([os.environ["RAINDROP"], "plan", "--json", *arguments], capture_output=True, text=True, cwd="/")
    if run.returncode:
        return _problem(route, 400, "invalid_parameter", run.stderr.partition("\n")[2].strip())
    plan = json.loads(run.stdout)
    lines = [f"{name} = {json.dumps(value) if not value.isdigit() else value}" for name, value in given.items()]
    route.fulfill(json={**plan, "toml": "\n".join(["[layout]", *lines, ""])})


class _Codes:
    def __init__(self):
        self.codes = {}
        self.put("order", {"start": "1"}, "configured")

    def put(self, name, body, kind="managed"):
        whole = {"namespace": "numbers", "code": name, "kind": kind, "next": str(body.get("start", "1")), "step": 0}
        whole |= {"reserved_at": None, "created_at": (datetime.now(timezone.utc) - timedelta(hours=5)).isoformat()}
        whole |= {"start": "1", "min_step": 1000, "max_step": 1000000, "increment": 1, "remainder": 0, "js_safe": False}
        whole |= {"max": "9223372036854775806", **body}
        self.codes[name] = whole
        return self.told(whole)

    def told(self, code):
        return {**code, "left": str(int(code["max"]) - int(code["next"]) + 1)}

    def answer(self, route):
        path = urlsplit(route.request.url).path.split("/")[2:]
        body = json.loads(route.request.post_data or "{}")
        if not path:
            return route.fulfill(json={"codes": [self.told(one) for one in self.codes.values()]})
        name, action = path[0], (path[1:] or [route.request.method])[0]
        if action == "PUT":
            if name in self.codes:
                return _problem(route, 412, "precondition_failed", f"code {name} exists already")
            return route.fulfill(status=201, json=self.put(name, body))
        code = self.codes[name]
        if action == "PATCH":
            code.update(body)
        elif action == "raise":
            code["next"] = str(int(code["next"]) + body["by"]) if "by" in body else body["to"]
        elif action == "retire":
            code["kind"] = "retired"
        route.fulfill(json=self.told(code))


def _cluster(route):
    now = datetime.now(timezone.utc)
    stamp = lambda seconds: (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    workers = [(5, 0, "10.0.0.7:8080#test", -12), (8, 1, "10.0.0.8:8080#orders-7f9c", -25), (211, 0, "10.0.1.4:8080#orders-2b1d", -76)]
    workers = [{"worker_id": w, "lane": l, "holder": h, "renewed": stamp(r), "expires": stamp(r + 90)} for w, l, h, r in workers]
    default = {"mode": "snowflake", "issuing": True, "worker_id": 5, "lane": 0, "valid_until": stamp(280), "reason": None}
    default |= {"layout": "millisecond", "workers": workers}
    numbers = {"mode": "segment", "issuing": True, "codes": 3, "remaining": 4200, "reason": None}
    wave = [int(9000 + 4000 * ((i * 7) % 11) / 11) for i in range(60)]
    history = {"every_seconds": 10, "namespaces": {
        "default": {"issued": wave, "waited": [i % 7 // 6 * 12 for i in range(60)], "refused": [0] * 60, "rollbacks": [0] * 30 + [1] + [0] * 29},
        "numbers": {"issued": [80] * 40, "waited": [0] * 40, "refused": [0] * 40, "rollbacks": [0] * 40}}}
    route.fulfill(json={"now": stamp(0), "store_verified": True, "namespaces": {"default": default, "numbers": numbers}, "history": history})


def _with_parts(route):
    response = route.fetch()
    body = response.text()
    if '"parts":[' in body:
        head, rest = body.split('"parts":[', 1)
        body = head + '"parts":["try","inspect","plan","cluster","codes"]' + rest[rest.index("]") + 1 :]
    route.fulfill(response=response, body=body)


def with_missing_routes(page):
    codes = _Codes()
    is_path = lambda *paths: lambda url: urlsplit(url).path.startswith(paths)
    page.route(is_path("/plan"), _plan)
    page.route(is_path("/codes"), codes.answer)
    page.route(is_path("/cluster"), lambda route: route.fulfill(json={"released": True, "holder": "10.0.0.8:8080#orders-7f9c"}) if route.request.method == "POST" else _cluster(route))
    page.route(lambda url: urlsplit(url).path == "/", _with_parts)

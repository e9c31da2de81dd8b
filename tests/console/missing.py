"""Routes that this branch does not have yet: /plan, /codes and POST /cluster/release are answered
here, and what /cluster lacks is added. To be removed, with its uses in browser.py and
operators_test.py, when the routes are merged."""

import json
import os
import subprocess
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, urlsplit

FLAGS = ["preset", "time_unit", "epoch", "timestamp_bits", "worker_bits", "data_center_bits"]
FLAGS += ["rollback_bits", "reserved_bits", "min_sequence", "max_sequence"]


def _problem(route, status, code, detail):
    body = {"type": f"urn:raindrop:problem:{code}", "title": code, "status": status}
    body |= {"code": code, "detail": detail}
    route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))


def _plan(route):
    given = dict(parse_qsl(urlsplit(route.request.url).query))
    flags = [f"--{name.replace('_', '-')}={given[name]}" for name in FLAGS if name in given]
    command = [os.environ["RAINDROP"], "plan", "--json", *flags]
    run = subprocess.run(command, capture_output=True, text=True, cwd="/")
    if run.returncode:
        return _problem(route, 400, "invalid_parameter", run.stderr.partition("\n")[2].strip())
    lines = [f"{name} = {value if value.isdigit() else json.dumps(value)}" for name, value in given.items()]
    route.fulfill(json={**json.loads(run.stdout), "toml": "\n".join(["[layout]", *lines, ""])})


class _Codes:
    def __init__(self):
        self.codes = {}
        self.put("invoice", {}, "configured")

    def put(self, name, body, kind="managed"):
        now = datetime.now(timezone.utc)
        code = {"namespace": "numbers", "code": name, "kind": kind, "next": str(body.get("start", 1))}
        code |= {"step": 0, "reserved_at": None, "created_at": (now - timedelta(hours=5)).isoformat()}
        code |= {"start": "1", "min_step": 1000, "max_step": 1000000, "increment": 1, "remainder": 0}
        code |= {"js_safe": False, "max": "9223372036854775806", **body}
        self.codes[name] = code
        return self.told(code)

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


class _Cluster:
    def __init__(self):
        self.released = set()

    def answer(self, route):
        if route.request.method == "POST":
            worker = json.loads(route.request.post_data)["worker_id"]
            self.released.add(worker)
            return route.fulfill(json={"released": True, "holder": "…", "expires": "…"})
        response = route.fetch()
        if response.status != 200:
            return route.fulfill(response=response)
        cluster = response.json()
        cluster["now"] = datetime.now(timezone.utc).isoformat()
        for namespace in cluster["namespaces"].values():
            workers = [one for one in namespace.get("workers", []) if one["worker_id"] not in self.released]
            for worker in workers:
                expires = datetime.fromisoformat(worker["expires"])
                worker["renewed"] = (expires - timedelta(seconds=90)).isoformat()
            if "workers" in namespace:
                namespace["workers"] = workers
        route.fulfill(json=cluster)


def _with_parts(route):
    response = route.fetch()
    head, found, rest = response.text().partition('"parts":[')
    parts, _, rest = rest.partition("]")
    is_public = '"try"' in parts
    names = ["try", "inspect", "plan"] if is_public else ["inspect", "plan", "cluster", "codes"]
    body = f"{head}{found}{json.dumps(names)[1:]}{rest}" if found else head
    route.fulfill(response=response, body=body)


def with_missing_routes(page):
    codes, cluster = _Codes(), _Cluster()

    def of(path):
        return lambda url: urlsplit(url).path == path or urlsplit(url).path.startswith(f"{path}/")

    page.route(of("/plan"), _plan)
    page.route(of("/codes"), codes.answer)
    page.route(of("/cluster"), cluster.answer)
    page.route(lambda url: urlsplit(url).path == "/", _with_parts)

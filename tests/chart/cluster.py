"""A stand-in for an API server that answers what `lookup` of a template asks: objects that exist."""

import contextlib
import http.server
import json
import tempfile
import threading

import yaml

_KINDS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
_RESOURCES = [
    {"name": plural, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
    for kind, plural in _KINDS.items()
]


def _answers(objects):
    group = {"groupVersion": "apps/v1", "version": "v1"}
    groups = [{"name": "apps", "versions": [group], "preferredVersion": group}]
    answers = {
        "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        "/apis/apps/v1": {"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": _RESOURCES},
    }
    for found in objects:
        meta = found["metadata"]
        plural = _KINDS[found["kind"]]
        answers[f"/apis/apps/v1/namespaces/{meta['namespace']}/{plural}/{meta['name']}"] = found
    return answers


@contextlib.contextmanager
def cluster(*objects):
    """Options of `helm template` with which lookups find these objects, and no others."""
    answers = _answers(objects)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(answer or missing).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        address = f"http://127.0.0.1:{server.server_port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
            "current-context": "test",
        }
        yaml.safe_dump(config, file)
        file.flush()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield ("--dry-run=server", "--kubeconfig", file.name)
        finally:
            server.shutdown()
            server.server_close()

"""A private Kubernetes: etcd, kube-apiserver and kube-controller-manager on free ports of 127.0.0.1."""

import atexit
import contextlib
import functools
import http.client
import json
import os
import pathlib
import secrets
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from service import free_port

PROGRAMS = pathlib.Path(os.environ["KUBERNETES"])
# Those that a fleet needs. Nothing here observes machines or joins addresses to Services.
CONTROLLERS = """deployment-controller replicaset-controller statefulset-controller namespace-controller
garbage-collector-controller serviceaccount-controller root-ca-certificate-publisher-controller
disruption-controller horizontal-pod-autoscaler-controller""".split()


class ApiError(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """An API server, as the account of a token sees it."""

    def __init__(self, url, ca_file, token):
        self.url = url
        self.token = token
        self._tls = ssl.create_default_context(cafile=ca_file)

    def call(self, method, path, body=None, kind="application/json", **query):
        """The answer's JSON; ApiError if the server refuses, OSError if it cannot be reached."""
        request = urllib.request.Request(
            f"{self.url}{path}?{urllib.parse.urlencode(query)}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode()) from None
        except (http.client.HTTPException, json.JSONDecodeError) as error:
            raise ConnectionError(f"cut off: {error}") from None

    def get(self, path, **query):
        return self.call("GET", path, **query)

    def items(self, path, **query):
        return self.get(path, **query)["items"]

    def post(self, path, body, **query):
        return self.call("POST", path, body, **query)

    def merge(self, path, body):
        return self.call("PATCH", path, body, kind="application/merge-patch+json")

    def apply(self, manifest):
        """Applies a manifest as `kubectl apply --server-side --force-conflicts` does."""
        path = f"{collection(self, manifest)}/{manifest['metadata']['name']}"
        return self.call(
            "PATCH", path, manifest, "application/apply-patch+yaml", fieldManager="kubectl", force="true"
        )

    def delete(self, path, **options):
        return self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})


@functools.cache
def collections(api, version):
    """The collection of each kind of an API version: {kind: path, with {namespace} in it if it has one}."""
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return {
        resource["kind"]: f"{root}/namespaces/{{namespace}}/{resource['name']}"
        if resource["namespaced"]
        else f"{root}/{resource['name']}"
        for resource in api.get(root)["resources"]
        if "/" not in resource["name"]
    }


def collection(api, manifest):
    """The path under which a manifest's kind is listed and created, in its namespace."""
    path = collections(api, manifest["apiVersion"])[manifest["kind"]]
    return path.format(namespace=manifest["metadata"].get("namespace"))


def eventually(what, condition, seconds=120):
    """Waits until a condition holds, and returns it. What the server cannot answer yet does not hold."""
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (OSError, ApiError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"never: {what} {last or ''}")


class ControlPlane:
    """The servers. `api` speaks for an administrator, and `kubeconfig` is the file for helm."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="raindrop-kubernetes-")
        self.folder = pathlib.Path(self._folder.name)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._etcd = f"http://127.0.0.1:{free_port()}"
        self._processes = {}
        self._make_keys()
        token = secrets.token_hex(16)
        (self.folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        self.ca_file = self.folder / "ca.crt"
        self.api = Api(self.url, self.ca_file, token)
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._kubeconfig(token)))

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def _make_keys(self):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        sign = ["req", "-x509", *key, "-days", "9"]
        self._openssl(*sign, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt")
        names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
        by_ca = ["-CA", "ca.crt", "-CAkey", "ca.key"]
        self._openssl(*sign, "-subj", "/CN=api", *names, *by_ca, "-keyout", "api.key", "-out", "api.crt")
        self._openssl("genrsa", "-out", "accounts.key", "2048")

    def _kubeconfig(self, token):
        server = {"server": self.url, "certificate-authority": str(self.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    def _start(self, program, **flags):
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        with open(self.folder / f"{program}.log", "a") as log:
            self._processes[program] = subprocess.Popen(
                [PROGRAMS / program, *arguments], cwd=self.folder, stdout=log, stderr=log
            )

    def _stop(self, program):
        process = self._processes.pop(program, None)
        if process:
            process.kill()
            process.wait()

    def start(self):
        peer = f"http://127.0.0.1:{free_port()}"
        self._start(
            "etcd",
            data_dir="etcd",
            listen_client_urls=self._etcd,
            advertise_client_urls=self._etcd,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            unsafe_no_fsync="true",
        )
        self.start_api()
        self._start(
            "kube-controller-manager",
            kubeconfig=self.kubeconfig,
            leader_elect="false",
            secure_port=0,
            controllers=",".join(CONTROLLERS),
            root_ca_file=self.ca_file,
            service_account_private_key_file="accounts.key",
        )
        # The first sign that the controllers run.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        eventually("controllers run", lambda: self.api.get(account))

    def start_api(self):
        """Starts the API server and waits until it answers."""
        self._start(
            "kube-apiserver",
            etcd_servers=self._etcd,
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            secure_port=self.port,
            tls_cert_file="api.crt",
            tls_private_key_file="api.key",
            service_cluster_ip_range="10.0.0.0/20,fd00::/112",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file="accounts.key",
            service_account_signing_key_file="accounts.key",
            token_auth_file="tokens.csv",
            authorization_mode="RBAC",
            endpoint_reconciler_type="none",
        )
        eventually("the API server is ready", lambda: self.api.get("/api/v1/namespaces/kube-system"))

    def stop_api(self):
        """Ends the API server without a farewell, as a crash does."""
        self._stop("kube-apiserver")

    def stop(self):
        for program in list(self._processes):
            self._stop(program)
        self._folder.cleanup()

    @contextlib.contextmanager
    def namespace(self, name, **labels):
        """A Kubernetes namespace that enforces the restricted Pod Security Standard."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted", **labels}
        metadata = {"name": name, "labels": labels}
        self.api.post("/api/v1/namespaces", {"metadata": metadata})
        path = f"/api/v1/namespaces/{name}"
        eventually(f"{name} has an account", lambda: self.api.get(f"{path}/serviceaccounts/default"))
        eventually(f"{name} has the authority", lambda: self.api.get(f"{path}/configmaps/kube-root-ca.crt"))
        try:
            yield path
        finally:
            self.api.delete(path)


@functools.cache
def control_plane():
    """The servers that all tests share, until the tests end."""
    servers = ControlPlane()
    atexit.register(servers.stop)
    # Ends the tests as Ctrl-C does, or nothing that is registered would be called.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    servers.start()
    return servers

"""A release in a Kubernetes namespace of its own, and clients that request IDs from it all the while."""

import atexit
import contextlib
import datetime
import functools
import itertools
import json
import subprocess
import tempfile
import threading
import time
import urllib.request

from chart import CHART, helm, sets
from control_plane import ApiError, control_plane, eventually
from kubelet import Kubelet, is_ready
from service import free_port

# The values that every installation needs.
IMAGE = ("image.repository=registry.example.org/raindrop", "image.tag=test")
SERVERS = "app.kubernetes.io/instance=raindrop,app.kubernetes.io/component=server"
_numbers = itertools.count(1)


@functools.cache
def machine():
    """The one machine of the private Kubernetes."""
    kubelet = Kubelet(control_plane())
    # The control plane has registered before, so it ends after the kubelet.
    atexit.register(kubelet.stop)
    kubelet.start()
    return kubelet


def get_json(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


@contextlib.contextmanager
def redis():
    """A private Redis that keeps what it acknowledges; its address."""
    with tempfile.TemporaryDirectory(prefix="raindrop-redis-") as folder:
        port = free_port()
        flags = ["--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes"]
        process = subprocess.Popen(
            ["redis-server", *map(str, flags), "--appendfsync", "always"], stdout=subprocess.DEVNULL
        )
        try:
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


class Fleet:
    """The release `raindrop`, and every ID that its clients got."""

    def __init__(self, test, *values):
        self.test = test
        self.servers = control_plane()
        self.api = self.servers.api
        self.namespace = f"ids-{next(_numbers)}"
        self.values = values
        self.ids = []
        self.issuers = set()
        self.failures = []
        self.machine = machine()
        self.path = test.enterContext(self.servers.namespace(self.namespace))
        self.machine.namespaces.add(self.namespace)
        test.addCleanup(self._leave)

    def _leave(self):
        self.machine.namespaces.discard(self.namespace)
        for runner in self.runners():
            runner.end_now()

    def helm(self, *arguments):
        options = ["--namespace", self.namespace, "--kubeconfig", self.servers.kubeconfig]
        result = helm(*arguments, *options)
        self.test.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}{self.logs()}")
        return result.stdout

    def install(self, *values):
        self.helm("install", "raindrop", CHART, "--wait", "--timeout=120s", *sets(*self.values, *values))

    def upgrade(self, *values):
        options = ("--reset-then-reuse-values", "--wait", "--timeout=120s")
        self.helm("upgrade", "raindrop", CHART, *options, *sets(*values))

    def rollback(self):
        self.helm("rollback", "raindrop", "--wait", "--timeout=120s")

    def uninstall(self):
        self.helm("uninstall", "raindrop")
        self.eventually("every Pod has ended", lambda: not self.pods())

    def pods(self):
        return self.api.items(f"{self.path}/pods", labelSelector=SERVERS)

    def ready(self):
        return [pod for pod in self.pods() if is_ready(pod)]

    def leases(self, table):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return self.api.items(path, labelSelector=f"raindrop/table={table}")

    def runners(self):
        """Each Pod's process, those included that have ended."""
        every = list(self.machine.runners.values())
        return [runner for runner in every if runner.namespace == self.namespace]

    def workload(self, kind):
        return f"/apis/apps/v1/namespaces/{self.namespace}/{kind}s"

    def logs(self):
        """The last lines of every Pod's log, for the message of a failure."""
        logs = [(runner.address, runner.log) for runner in self.runners() if runner.log.exists()]
        return "".join(f"\n{address}:\n{log.read_text()[-2000:]}" for address, log in logs)

    def eventually(self, what, condition):
        try:
            return eventually(what, condition)
        except AssertionError as error:
            raise AssertionError(f"{error}{self.logs()}") from None

    def valid_until(self):
        """When the first lease of the ready nodes ends, in seconds since 1970."""
        found = []
        for pod in self.ready():
            health = get_json(f"http://{pod['status']['podIP']}:9090/health")
            found.append(datetime.datetime.fromisoformat(health["namespaces"]["default"]["valid_until"]))
        return min(found).timestamp()

    def request(self, address):
        self.ids.extend(get_json(f"http://{address}:8080/ids/order?n=20")["ids"])
        self.issuers.add(address)

    @contextlib.contextmanager
    def clients(self, count=3):
        """Requests IDs from the ready Pods, of which it learns within a second, as a Service's clients do."""
        stopping = threading.Event()
        addresses = [pod["status"]["podIP"] for pod in self.ready()]
        self.test.assertNotEqual(addresses, [])

        def watch():
            while not stopping.wait(1):
                with contextlib.suppress(OSError, ApiError):
                    addresses[:] = [pod["status"]["podIP"] for pod in self.ready()]

        def request():
            for turn in itertools.count():
                if stopping.wait(0.02):
                    return
                chosen = list(addresses)
                address = chosen[turn % len(chosen)] if chosen else "nobody"
                try:
                    self.request(address)
                except Exception as error:
                    self.failures.append(f"{time.strftime('%T')} {address}: {error}")

        threads = [threading.Thread(target=work) for work in [watch, *[request] * count]]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopping.set()
            for thread in threads:
                thread.join()

    def check(self, least=1000):
        """No request failed, no ID came twice, and every Pod ended in time."""
        self.test.assertEqual(self.failures, [], self.logs())
        self.test.assertGreater(len(self.ids), least)
        self.test.assertEqual(len(self.ids) - len(set(self.ids)), 0, "duplicates")
        late = [runner.address for runner in self.runners() if runner.outlasted_its_grace]
        self.test.assertEqual(late, [], self.logs())
        name = self.test.id()
        print(f"{name}: {len(self.ids)} IDs of {len(self.issuers)} Pods, no duplicate, no failed request")

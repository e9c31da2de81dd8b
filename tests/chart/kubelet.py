"""Stands in for scheduler and kubelet: runs the built binary for each Pod, as its specification says.

Each Pod has an address of its own in 127.0.0.0/8, where its ports cannot clash: HTTP__LISTEN and
HTTP__ADMIN_LISTEN are set for it. Everything else is the Pod's: environment, files at their paths in a
read-only root, user and group, probes, restarts and the grace period."""

import contextlib
import itertools
import random
import signal
import subprocess
import threading
import time
import traceback
import urllib.error
import urllib.request

from container import Container
from control_plane import ApiError


def is_ready(pod):
    """Whether a Pod would be an endpoint of its Services."""
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


class Kubelet:
    """Runs the Pods of some Kubernetes namespaces on one machine."""

    def __init__(self, servers):
        self.servers = servers
        self.api = servers.api
        self.folder = servers.folder / "pods"
        self.namespaces = set()
        self.runners = {}
        # Not the addresses of another run on the same machine.
        self._network = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}"
        self._addresses = iter(range(1, 255))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        node = {"metadata": {"name": "machine"}}
        self.api.post("/api/v1/nodes", node)
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        self.api.merge("/api/v1/nodes/machine/status", {"status": {"conditions": ready}})
        self._thread.start()

    def stop(self):
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for runner in list(self.runners.values()):
            runner.end_now()

    def address(self):
        return f"{self._network}.{next(self._addresses)}"

    def _run(self):
        while not self._stopping.wait(0.1):
            try:
                pods = [
                    pod
                    for namespace in sorted(self.namespaces)
                    for pod in self.api.items(f"/api/v1/namespaces/{namespace}/pods")
                ]
                for pod in pods:
                    self._look_at(pod)
                known = {pod["metadata"]["uid"] for pod in pods}
            except OSError:
                # As a real one does, it lets its Pods run while it cannot reach the API server.
                continue
            except ApiError as error:
                print(f"kubelet: {error}")
                continue
            for uid, runner in list(self.runners.items()):
                if uid not in known and runner.namespace in self.namespaces:
                    runner.end_now()

    def _look_at(self, pod):
        metadata = pod["metadata"]
        runner = self.runners.get(metadata["uid"])
        if "deletionTimestamp" in metadata:
            if runner:
                runner.stop(metadata["deletionGracePeriodSeconds"])
            else:
                self.api.delete(pod_path(pod), gracePeriodSeconds=0)
        elif not runner:
            target = {"apiVersion": "v1", "kind": "Node", "name": "machine"}
            if not pod["spec"].get("nodeName"):
                self.api.post(
                    f"{pod_path(pod)}/binding", {"metadata": {"name": metadata["name"]}, "target": target}
                )
            self.runners[metadata["uid"]] = Runner(self, pod)


def pod_path(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


class Runner:
    """One Pod: its files, its process, and what the API is told of it."""

    def __init__(self, kubelet, pod):
        self.kubelet = kubelet
        self.api = kubelet.api
        self.pod = pod
        self.namespace = pod["metadata"]["namespace"]
        self.address = kubelet.address()
        folder = kubelet.folder / pod["metadata"]["uid"]
        self.container = Container(kubelet.servers, pod, self.address, folder)
        self.log = self.container.log
        self.restarts = 0
        self.is_ready = False
        self.outlasted_its_grace = False
        self.process = None
        self._is_told = False
        self._grace = None
        self._abandoned = threading.Event()
        self.spec = self.container.container
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def stop(self, grace):
        if self._grace is None:
            self._grace = time.monotonic() + grace

    def end_now(self):
        """Kills the process and forgets the Pod."""
        self._abandoned.set()
        self._thread.join(60)

    def _guarded(self):
        try:
            self._run()
        except Exception:
            # Seen by the test that waits for this Pod to be ready.
            traceback.print_exc()
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def _run(self):
        self._patiently(self.container.write_files)
        if all(map(self._initialize, self.container.initial)) and self._grace is None:
            self.process = self.container.start(self.spec)
            self._serve()
        if self._grace is not None and not self._abandoned.is_set():
            self._patiently(self._forget)

    def _initialize(self, container):
        """Runs a container to its end, again and again until it works; whether it did before the Pod was deleted."""
        for restarts in itertools.count():
            self.process = self.container.start(container)
            while self.process.poll() is None:
                if self._grace is not None or self._abandoned.wait(0.05):
                    return False
            if self.process.returncode == 0:
                return True
            self._patiently(lambda: self._report_failure(container, restarts))
            # A real one waits longer each time.
            if self._abandoned.wait(1) or self._grace is not None:
                return False

    def _serve(self):
        """Watches the process until the Pod is deleted, and then ends it."""
        probe = self.spec["readinessProbe"]
        failures, next_probe = 0, 0
        while self._grace is None and not self._abandoned.wait(0.2):
            if self.process.poll() is not None:
                self.restarts, self.is_ready, self._is_told = self.restarts + 1, False, False
                self._abandoned.wait(1)
                self.process = self.container.start(self.spec)
                failures, next_probe = probe["failureThreshold"], 0
            if time.monotonic() >= next_probe:
                failures = 0 if self._answers(probe) else failures + 1
                # Sooner than a real one while it is not ready, to save time.
                period = probe["periodSeconds"] if self.is_ready else 0
                next_probe = time.monotonic() + period
            if failures == 0 or failures >= probe["failureThreshold"]:
                self._is_told = self._is_told and self.is_ready == (failures == 0)
                self.is_ready = failures == 0
            if not self._is_told:
                # Not now, while the API server is away.
                with contextlib.suppress(OSError, ApiError):
                    self._report()
                    self._is_told = True
        if self._grace is not None:
            self._terminate()

    def _terminate(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(max(0, self._grace - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.outlasted_its_grace = True
            self.process.kill()
            self.process.wait()

    def _forget(self):
        try:
            uid = {"uid": self.pod["metadata"]["uid"]}
            self.api.delete(pod_path(self.pod), gracePeriodSeconds=0, preconditions=uid)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        return True

    def _patiently(self, step):
        """Repeats a step while the API server is away, or does not have yet what the step needs."""
        while not self._abandoned.is_set():
            try:
                return step()
            except (OSError, ApiError) as error:
                if isinstance(error, ApiError) and error.status not in (404, 409, 429, 500, 503):
                    raise
                if self._grace is not None and isinstance(error, ApiError):
                    return None
            self._abandoned.wait(0.2)

    def _answers(self, probe):
        get = probe["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}
        url = f"http://{self.address}:{ports.get(get['port'], get['port'])}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=probe["timeoutSeconds"]) as answer:
                return 200 <= answer.status < 400
        except (OSError, urllib.error.HTTPError):
            return False

    def _report_failure(self, container, restarts):
        """Tells the API what `FallbackToLogsOnError` shows: the end of the log."""
        message = self.container.log_of(container).read_text()[-2048:]
        failed = {"exitCode": self.process.returncode, "reason": "Error", "message": message}
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": restarts,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": failed},
        }
        status = {"phase": "Pending", "initContainerStatuses": [status]}
        return self.api.merge(f"{pod_path(self.pod)}/status", {"status": status})

    def _report(self):
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        names = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        status = {"PodScheduled": True, "Initialized": True}
        conditions = [
            {"type": name, "status": str(status.get(name, self.is_ready)), "lastTransitionTime": since}
            for name in names
        ]
        container = {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.is_ready,
            "started": True,
            "restartCount": self.restarts,
            "state": {"running": {"startedAt": since}},
        }
        status = {
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": conditions,
            "containerStatuses": [container],
        }
        return self.api.merge(f"{pod_path(self.pod)}/status", {"status": status})

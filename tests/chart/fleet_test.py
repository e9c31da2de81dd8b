"""Releases on a real API server, whose Pods run the built binary: installed, changed, moved and removed
under load, with no failed request and no ID twice."""

import os
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request

from chart import CHART, manifests, sets
from control_plane import ApiError
from fleet import IMAGE, SERVERS, Fleet, get_json, redis

# For how long the API server is away.
OUTAGE = int(os.environ.get("OUTAGE", "20"))
# Shorter than the default, to save time; longer than it takes to leave the list of ready Pods.
QUICK = ("config.http.drain_delay=2s",)


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class Changes:
    """What is done to every release; a subclass says with which store."""

    def test_a_deployment_is_upgraded_and_rolled_back(self):
        self.change("Deployment")

    def test_a_stateful_set_is_upgraded_and_rolled_back(self):
        self.change("StatefulSet")

    def change(self, kind):
        fleet = self.fleet(f"kind={kind}")
        fleet.install()
        before = {pod["metadata"]["uid"] for pod in fleet.ready()}
        self.assertEqual(len(before), 2)
        with fleet.clients():
            fleet.upgrade("config.log.level=debug")
            upgraded = {pod["metadata"]["uid"] for pod in fleet.ready()}
            fleet.rollback()
        self.assertEqual(before & upgraded, set(), "a new configuration restarts the Pods")
        fleet.check()
        fleet.uninstall()


def refusals(pod):
    """What each container that initializes a Pod said when it failed: {container: message}."""
    found = pod["status"].get("initContainerStatuses", [])
    return {status["name"]: status["lastState"]["terminated"]["message"] for status in found}


class WithSecret(Changes, unittest.TestCase):
    def fleet(self, *values):
        fleet = Fleet(self, *IMAGE, *QUICK, "store.existingSecret=store", *values)
        secret = {"metadata": {"name": "store"}, "stringData": {"url": self.enterContext(redis())}}
        fleet.api.post(f"{fleet.path}/secrets", secret)
        return fleet

    def test_an_invalid_configuration_stops_the_update_of_a_deployment(self):
        self.refuse("Deployment", survivors=2)

    def test_an_invalid_configuration_stops_the_update_of_a_stateful_set(self):
        self.refuse("StatefulSet", survivors=1)

    def refuse(self, kind, survivors):
        """The check of the configuration fails in the first new Pod: the old ones keep serving until a rollback."""
        fleet = self.fleet(f"kind={kind}")
        fleet.install()
        before = {pod["metadata"]["uid"] for pod in fleet.ready()}
        with fleet.clients():
            wrong = sets("config.layout.preset=unheard-of")
            fleet.helm("upgrade", "raindrop", CHART, "--reset-then-reuse-values", *wrong)

            def said():
                return [message for pod in fleet.pods() for message in refusals(pod).values()]

            fleet.eventually("the check has failed", said)
            for message in said():
                self.assertIn("layout.preset = unheard-of", message)
                self.assertIn("must be one of raindrop, js-safe", message)
                self.assertNotIn("redis:", message)
            # Waits long enough for the update to continue, if it could.
            issued = len(fleet.ids)
            time.sleep(5)
            self.assertGreater(len(fleet.ids), issued + 100)
            kept = {pod["metadata"]["uid"] for pod in fleet.ready()}
            self.assertEqual(len(kept), survivors)
            self.assertLessEqual(kept, before)
            fleet.rollback()
            self.assertEqual(len(fleet.ready()), 2)
        fleet.check()

    def test_the_readiness_namespace_decides_alone(self):
        """Two nodes share the only worker id of the namespace `web`: one of them cannot issue there."""
        # The chart refuses so few worker ids, unless the environment may say otherwise.
        environment = ("extraEnv[0].name=RAINDROP__NAMESPACES__WEB__LEASE__TTL", "extraEnv[0].value=90s")
        fleet = self.fleet("readinessNamespace=default", "config.namespaces.web.worker.max_id=1", *environment)
        fleet.install()
        self.assertEqual(len(fleet.ready()), 2)
        pods = [f"http://{pod['status']['podIP']}:9090/readyz" for pod in fleet.ready()]
        self.assertEqual(sorted(map(status, pods)), [200, 503])

    def test_autoscaling_is_toggled_on_a_live_fleet(self):
        fleet = self.fleet("replicaCount=4")
        fleet.install()
        uids = {pod["metadata"]["uid"] for pod in fleet.ready()}
        self.assertEqual(len(uids), 4)
        deployment = f"{fleet.workload('deployment')}/raindrop"

        def scaled():
            uids = {pod["metadata"]["uid"] for pod in fleet.ready()}
            return fleet.api.get(deployment)["spec"]["replicas"], uids

        with fleet.clients():
            fleet.upgrade("autoscaling.enabled=true")
            self.assertEqual(scaled(), (4, uids))
            # As the autoscaler does.
            fleet.api.merge(deployment, {"spec": {"replicas": 5}})
            fleet.eventually("5 Pods are ready", lambda: len(fleet.ready()) == 5)
            uids = {pod["metadata"]["uid"] for pod in fleet.ready()}
            fleet.upgrade("autoscaling.maxReplicas=7")
            self.assertEqual(scaled(), (5, uids))
            fleet.upgrade("autoscaling.enabled=false", "replicaCount=5")
            self.assertEqual(scaled(), (5, uids))
        fleet.check()

    def test_the_kind_changes_and_changes_back(self):
        """The steps of docs/kubernetes.md."""
        fleet = self.fleet()
        fleet.install()
        with fleet.clients():
            fleet.api.delete(f"{fleet.workload('deployment')}/raindrop", propagationPolicy="Orphan")
            fleet.upgrade("kind=StatefulSet")
            self.assertEqual(len(fleet.ready()), 4)
            self.delete_all(fleet, fleet.workload("replicaset"), SERVERS)
            fleet.eventually("the old Pods have ended", lambda: len(fleet.pods()) == 2)
            fleet.api.delete(f"{fleet.workload('statefulset')}/raindrop", propagationPolicy="Orphan")
            fleet.upgrade("kind=Deployment")
            self.assertEqual(len(fleet.ready()), 4)
            self.delete_all(fleet, f"{fleet.path}/pods", f"{SERVERS},statefulset.kubernetes.io/pod-name")
            fleet.eventually("the old Pods have ended", lambda: len(fleet.pods()) == 2)
        names = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in fleet.pods()}
        self.assertEqual(names, {"ReplicaSet"})
        fleet.check()

    def test_another_store_waits_until_no_node_runs(self):
        """The steps of docs/kubernetes.md. Whatever else is applied, nodes stay on their Deployment's store."""
        fleet = self.fleet()
        fleet.install()
        secret = {"metadata": {"name": "other"}, "stringData": {"url": self.enterContext(redis())}}
        fleet.api.post(f"{fleet.path}/secrets", secret)
        deployment = f"{fleet.workload('deployment')}/raindrop"
        with fleet.clients():
            options = ("--kube-version=1.31.0", "--no-hooks", *sets(*fleet.values, "store.existingSecret=other"))
            for manifest in manifests(fleet.helm("template", "raindrop", CHART, *options)):
                if manifest["kind"] == "Deployment":
                    with self.assertRaisesRegex(ApiError, "field is immutable"):
                        fleet.api.apply(manifest)
                else:
                    fleet.api.apply(manifest)
            before = {pod["metadata"]["name"] for pod in fleet.ready()}
            fleet.api.delete(f"{fleet.path}/pods/{min(before)}")

            def replaced():
                names = {pod["metadata"]["name"] for pod in fleet.ready()}
                return len(names) == 2 and names != before

            fleet.eventually("another Pod is ready", replaced)
            # Either Pod's store knows both of them.
            holders = {f"{fleet.namespace}/{pod['metadata']['name']}" for pod in fleet.ready()}
            for pod in fleet.ready():
                cluster = get_json(f"http://{pod['status']['podIP']}:9090/cluster")
                workers = cluster["namespaces"]["default"]["workers"]
                self.assertLessEqual(holders, {worker["holder"] for worker in workers})
        fleet.api.delete(deployment, propagationPolicy="Foreground")
        fleet.eventually("every Pod has ended", lambda: not fleet.pods())
        # As long as the clocks of nodes may differ.
        time.sleep(10)
        fleet.upgrade("store.existingSecret=other")
        moved = len(fleet.ids)
        with fleet.clients():
            fleet.eventually("IDs are issued", lambda: len(fleet.ids) > moved + 1000)
        fleet.check()

    def delete_all(self, fleet, path, selector):
        found = fleet.api.items(path, labelSelector=selector)
        self.assertNotEqual(found, [])
        for item in found:
            fleet.api.delete(f"{path}/{item['metadata']['name']}", propagationPolicy="Background")


class WithKubernetes(Changes, unittest.TestCase):
    def fleet(self, *values):
        return Fleet(self, *IMAGE, *QUICK, *values)

    def test_a_release_of_helm_3_is_upgraded_and_rolled_back_by_helm_4(self):
        fleet = self.fleet("autoscaling.external=true")
        with unittest.mock.patch.dict(os.environ, HELM=os.environ["HELM3"]):
            fleet.install()
        self.assertEqual(len(fleet.ready()), 1)
        deployment = f"{fleet.workload('deployment')}/raindrop"
        with fleet.clients():
            # As the autoscaler does.
            fleet.api.merge(f"{deployment}/scale", {"spec": {"replicas": 3}})
            fleet.upgrade("config.log.level=debug")
            self.assertEqual(len(fleet.ready()), 3)
            fleet.rollback()
        fleet.check()

    def test_it_issues_while_the_api_server_is_away(self):
        fleet = Fleet(self, *IMAGE)
        fleet.install()
        fleet.upgrade("replicaCount=3")
        self.assertEqual(len(fleet.ready()), 3)

        with fleet.clients():
            enough = time.time() + OUTAGE + 20
            fleet.eventually("the leases reach far enough", lambda: fleet.valid_until() > enough)
            fleet.servers.stop_api()
            time.sleep(OUTAGE)
            issued = len(fleet.ids)
            fleet.servers.start_api()
            reach = fleet.valid_until()
            fleet.eventually("each lease is renewed", lambda: fleet.valid_until() > reach)
        self.assertGreater(issued, 100 * OUTAGE)
        self.assertEqual(len(fleet.issuers), 3)
        fleet.check()

    def test_a_container_that_restarts_while_the_api_server_is_away_continues_by_its_state_file(self):
        fleet = self.fleet("stateFile.enabled=true")
        fleet.install()
        with fleet.clients():
            fleet.eventually("the leases reach far enough", lambda: fleet.valid_until() > time.time() + 60)
        fleet.servers.stop_api()
        self.addCleanup(fleet.servers.start_api)
        for runner in fleet.runners():
            runner.process.kill()
            fleet.eventually("it has restarted", lambda: runner.restarts == 1)
            fleet.eventually("it issues IDs", lambda: fleet.request(runner.address) or True)
        fleet.check()

    def test_a_new_installation_continues_with_the_leases_of_the_old_one(self):
        fleet = self.fleet()
        fleet.install()
        with fleet.clients():
            fleet.eventually("IDs are issued", lambda: len(fleet.ids) > 1000)
        fleet.uninstall()
        kept = {lease["metadata"]["uid"] for lease in fleet.leases("raindrop-worker")}
        self.assertGreaterEqual(len(kept), 2)
        fleet.install()
        with fleet.clients():
            fleet.eventually("IDs are issued", lambda: len(fleet.ids) > 2000)
        fleet.check()
        self.assertLessEqual(kept, {lease["metadata"]["uid"] for lease in fleet.leases("raindrop-worker")})


class Rights(unittest.TestCase):
    def test_the_account_may_do_what_the_store_needs_and_no_more(self):
        fleet = Fleet(self)
        # Rights only: no Pod is needed.
        fleet.helm("install", "raindrop", CHART, "--set=replicaCount=0")
        user = f"system:serviceaccount:{fleet.namespace}:raindrop"

        def may(verb, namespace=fleet.namespace, group="coordination.k8s.io", resource="leases"):
            attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
            review = {"spec": {"user": user, "resourceAttributes": attributes}}
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            return fleet.api.post(path, review)["status"]["allowed"]

        verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
        self.assertEqual({verb for verb in verbs if may(verb)}, {"get", "list", "create", "patch", "delete"})
        self.assertFalse(any(may(verb, namespace="default") for verb in verbs))
        self.assertFalse(any(may(verb, group="", resource="secrets") for verb in verbs))
        fleet.helm("upgrade", "raindrop", CHART, "--set=replicaCount=0,rbac.create=false")
        self.assertFalse(any(may(verb) for verb in verbs))

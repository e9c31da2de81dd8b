"""What depends on the objects of a cluster, here a real API server: the number of nodes, fields that
cannot change, and the store."""

import contextlib
import json
import unittest

from chart import HERE, manifests, of_case, only, refused, render, sets, template
from control_plane import ApiError, collection, control_plane, eventually

WHY = "is there, because nodes on two stores issue the same IDs; keep the values of the store, or follow docs/kubernetes.md, Another store"
MOVED = "is there, because nodes in two namespaces may issue the same IDs; unset it, or follow docs/kubernetes.md, Another store"
OWNED = {"meta.helm.sh/release-name": "ids", "meta.helm.sh/release-namespace": "apps"}
SCALED = ("autoscaling.enabled=true", "autoscaling.minReplicas=3")


def live(*values, kind="Deployment", **spec):
    """What an installation with these values leaves in the cluster."""
    found = only(template(*sets(*values)), kind)
    found["spec"].update(spec)
    return found


def setUpModule():
    """No kubelet serves this namespace: Pods stay as they are created."""
    unittest.enterModuleContext(control_plane().namespace("apps"))


@contextlib.contextmanager
def cluster(*objects):
    """Options of `helm template` with which lookups find these objects, and no others."""
    servers = control_plane()
    for manifest in objects:
        # Helm 4 refuses objects that are not of the release.
        manifest["metadata"].setdefault("annotations", {}).update(OWNED)
        servers.api.post(collection(servers.api, manifest), manifest)
    try:
        yield ("--dry-run=server", "--kubeconfig", str(servers.kubeconfig))
    finally:
        for manifest in objects:
            path = collection(servers.api, manifest)
            servers.api.delete(f"{path}/{manifest['metadata']['name']}", propagationPolicy="Background")
        eventually("no Pod is left", lambda: not servers.api.items("/api/v1/namespaces/apps/pods"))


def replicas(text):
    (workload,) = (m for m in manifests(text) if m["kind"] in ("Deployment", "StatefulSet"))
    return workload["spec"].get("replicas")


class Replicas(unittest.TestCase):
    def test_autoscaling_keeps_the_number_that_runs(self):
        for kind in ("Deployment", "StatefulSet"):
            values = (*SCALED, f"kind={kind}")
            with self.subTest(kind=kind), cluster(live(f"kind={kind}", kind=kind, replicas=7)) as options:
                self.assertEqual(replicas(render(*sets(*values), *options)), 7)

    def test_what_was_scaled_to_zero_stays_there(self):
        with cluster(live(replicas=0)) as options:
            self.assertEqual(replicas(render(*sets(*SCALED), *options)), 0)

    def test_an_installation_starts_with_the_fewest(self):
        with cluster() as options:
            self.assertEqual(replicas(render(*sets(*SCALED), *options)), 3)

    def test_without_a_cluster_there_are_never_fewer_than_the_fewest(self):
        self.assertEqual(replicas(template(*sets(*SCALED))), 3)

    def test_an_autoscaler_of_ones_own_keeps_its_number(self):
        values = sets("autoscaling.external=true")
        self.assertIsNone(replicas(template(*values)))
        for number in (7, 0):
            with self.subTest(number=number), cluster(live(replicas=number)) as options:
                self.assertEqual(replicas(render(*values, *options)), number)

    def test_without_autoscaling_the_values_decide(self):
        with cluster(live(replicas=7)) as options:
            self.assertEqual(replicas(render(*options)), 2)


class Immutable(unittest.TestCase):
    def setUp(self):
        self.case = ("--values", str(HERE / "cases" / "sqlite.yaml"))
        self.live = only(of_case(HERE / "cases" / "sqlite.yaml"), "StatefulSet")

    def test_a_volume_that_stays_is_taken(self):
        for same in ("5Gi", "5120Mi"):
            with self.subTest(size=same), cluster(self.live) as options:
                render(*self.case, *sets(f"store.sqlite.size={same}"), *options)

    def test_another_volume_is_refused(self):
        for changed, says in [
            ("store.sqlite.size=10Gi", "5368709120 bytes, ReadWriteOncePod, class \"fast\" to 10737418240 bytes"),
            ("store.sqlite.storageClassName=slow", 'class "slow"'),
            ("store.sqlite.accessModes={ReadWriteOnce}", "to 5368709120 bytes, ReadWriteOnce, class"),
            ("store.sqlite.existingClaim=data", "to none"),
        ]:
            named = sets("store.name=ids")
            found = only(template(*self.case, *named), "StatefulSet")
            with self.subTest(changed), cluster(found) as options:
                said = refused(*self.case, *named, *sets(changed), *options)
                self.assertIn("StatefulSet ids-raindrop: its volume cannot change from", said)
                self.assertIn("; keep store.sqlite, or follow docs/kubernetes.md, Fields that cannot change", said)
                self.assertIn(says, said)

    def test_a_volume_cannot_be_added(self):
        one = ("store.name=ids", "kind=StatefulSet", "replicaCount=1", "store.sqlite.enabled=true")
        with cluster(live(*one, "store.sqlite.existingClaim=data", kind="StatefulSet")) as options:
            said = refused(*self.case, *sets("store.name=ids"), *options)
            self.assertIn("cannot change from none to 5368709120 bytes", said)

    def test_another_selector_is_refused(self):
        values = ("fullnameOverride=ids", "nameOverride=drops")
        for kind in ("Deployment", "StatefulSet"):
            found = live("fullnameOverride=ids", f"kind={kind}", kind=kind)
            with self.subTest(kind=kind), cluster(found) as options:
                said = refused(*sets(*values, f"kind={kind}"), *options)
                self.assertIn(f"{kind} ids: its selector cannot change from", said)
                self.assertIn('"app.kubernetes.io/name":"drops"', said)
                self.assertIn("; keep nameOverride and the values of the store, or follow docs/kubernetes.md, Fields that cannot change", said)


def label(*values):
    """The label of the store, in the selector of the Deployment and on its Pods."""
    spec = only(template(*sets(*values)), "Deployment")["spec"]
    found = spec["selector"]["matchLabels"]["raindrop/store"]
    assert found == spec["template"]["metadata"]["labels"]["raindrop/store"]
    return found


class Store(unittest.TestCase):
    SECRET = ("store.existingSecret=raindrop-store",)
    URL = "store.url=mysql://u:p@a\\,b:3307/app"

    def test_the_label_stays_with_the_store(self):
        for values, same in [
            ((), ["replicaCount=3", "store.url=kubernetes:", "config.log.level=debug"]),
            (self.SECRET, ["config.store.tls=verify", "config.store.worker_table=soc_raindrop_worker"]),
            ([self.URL], ["store.url=mariadb://v:q@B:3307\\,a/app?ssl-mode=REQUIRED", "config.store.timeout=1s"]),
            (["store.url=redis://h/0"], ["store.url=rediss://u:p@h/0"]),
            (["store.url=postgres://h/a?options=b"], ["store.url=postgresql://h/a?sslmode=require&options=b"]),
            (["store.name=ids", *self.SECRET], ["store.existingSecret=other", "store.existingSecretKey=address"]),
            (["store.name=ids", self.URL], ["store.url=mysql://c/app"]),
        ]:
            for changed in same:
                with self.subTest(values=values, changed=changed):
                    self.assertEqual(label(*values), label(*values, changed))

    def test_the_label_changes_with_the_store(self):
        found = [
            label(*values)
            for values in [
                (),
                ["config.store.segment_table=other"],
                ["store.name=ids"],
                self.SECRET,
                [*self.SECRET, "store.existingSecretKey=address"],
                [*self.SECRET, "config.store.worker_table=other"],
                [*self.SECRET, "store.name=ids"],
                ["store.existingSecret=other"],
                [self.URL],
                ["store.url=mysql://u:p@a/app"],
                ["store.url=mysql://u:p@a\\,b:3307/app2"],
                ["store.url=postgres://u:p@a\\,b:3307/app"],
                ["store.url=postgres://u:p@a\\,b:3307/app?options=-csearch_path=ids"],
            ]
        ]
        self.assertEqual(len(set(found)), len(found))
        for value in found:
            self.assertRegex(value, "^(kubernetes|secret)-[0-9a-f]{10}$")

    def test_only_the_selector_of_the_pods_has_the_label(self):
        case = HERE / "cases" / "monitoring.yaml"
        for manifest in [*manifests(of_case(case)), *manifests(of_case(HERE / "cases" / "network.yaml"))]:
            if manifest["kind"] not in ("Deployment", "StatefulSet"):
                self.assertNotIn("raindrop/store", json.dumps(manifest), manifest["kind"])

    def test_the_api_server_refuses_another_store(self):
        """Without `lookup`, as Argo CD and `helm template | kubectl apply` do it."""
        named = [*self.SECRET, "store.name=ids"]
        says = {"Deployment": "spec.selector: .*: field is immutable", "StatefulSet": "updates to statefulset spec"}
        for was, becomes, kind in [
            (self.SECRET, (), "Deployment"),
            ((), self.SECRET, "Deployment"),
            ((), ["config.store.worker_table=other"], "Deployment"),
            (["store.url=mysql://u@db/app"], ["store.url=mysql://u@db/app2"], "Deployment"),
            (["kind=StatefulSet"], [*self.SECRET, "kind=StatefulSet"], "StatefulSet"),
            (named, [*self.SECRET, "store.name=other"], "Deployment"),
        ]:
            with self.subTest(was=was, becomes=becomes), cluster(live(*was, kind=kind, replicas=0)):
                with self.assertRaisesRegex(ApiError, says[kind]):
                    control_plane().api.apply(live(*becomes, kind=kind))
                control_plane().api.apply(live(*was, "config.log.level=debug", kind=kind, replicas=0))

    def test_it_takes_another_store_once_the_workload_is_gone(self):
        api = control_plane().api
        with cluster(live(*self.SECRET)):
            path = "/apis/apps/v1/namespaces/apps/deployments/ids-raindrop"
            api.delete(path, propagationPolicy="Foreground")

            def is_gone():
                items = api.items("/apis/apps/v1/namespaces/apps/deployments")
                return not items and not api.items("/api/v1/namespaces/apps/pods")

            eventually("the Deployment is gone, and its Pods", is_gone)
            api.apply(live())

    def test_a_refused_store_changes_nothing_that_running_nodes_read(self):
        """The API server may have taken the other objects before it refuses the Deployment."""
        was, becomes = (template("--set", f"store.url=mysql://u@db/{name}") for name in ("app", "app2"))
        files = [[only(text, kind) for kind in ("ConfigMap", "Secret")] for text in (was, becomes)]
        self.assertEqual(files[0][0], files[1][0])
        self.assertNotEqual(*(found[1]["metadata"]["name"] for found in files))
        volumes = only(was, "Deployment")["spec"]["template"]["spec"]["volumes"]
        self.assertEqual(volumes[1]["secret"]["secretName"], files[0][1]["metadata"]["name"])

    def test_another_store_is_refused_in_words(self):
        with cluster(live(*self.SECRET, replicas=0)) as options:
            said = refused(*options)
            self.assertIn("Deployment ids-raindrop: its selector cannot change from", said)
            self.assertIn(f'"raindrop/store":"{label()}"', said)

    def test_a_release_with_pods_does_not_move_to_another_namespace(self):
        pod = {"apiVersion": "v1", "kind": "Pod", **live()["spec"]["template"]}
        pod["metadata"] |= {"name": "left", "namespace": "apps"}
        pod["spec"]["serviceAccountName"] = "default"
        with cluster(pod) as options:
            render(*sets("namespaceOverride=apps"), *options)
            said = refused(*sets("namespaceOverride=ids"), *options)
            self.assertIn(f'namespaceOverride = "ids": must not move a release while its pod left {MOVED}', said)
        with cluster() as options:
            render(*sets("namespaceOverride=ids"), *options)

    def test_a_pod_on_another_store_is_found_by_itself(self):
        """Not by the selector: it belongs to the other kind, or to nothing."""
        pod = {"apiVersion": "v1", "kind": "Pod", **live()["spec"]["template"]}
        pod["metadata"] |= {"name": "left", "namespace": "apps"}
        pod["spec"]["serviceAccountName"] = "default"
        with cluster(pod) as options:
            render(*sets("kind=StatefulSet"), *options)
            said = refused(*sets(*self.SECRET, "kind=StatefulSet"), *options)
            change = f"from {label()} to {label(*self.SECRET)} while the pod left"
            self.assertIn(f"ids-raindrop: its store cannot change {change} {WHY}", said)
            pod["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
            control_plane().api.merge("/api/v1/namespaces/apps/pods/left", {"metadata": pod["metadata"]})
            render(*sets(*self.SECRET), *options)

"""What depends on the objects of a cluster, here a real API server: the number of nodes, fields that
cannot change, and the store."""

import contextlib
import unittest

from chart import HERE, manifests, of_case, only, refused, render, sets, template
from control_plane import collection, control_plane

WHY = "while nodes run, because nodes on two stores issue the same IDs; keep the values of the store, or follow docs/kubernetes.md, Another store"
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
        servers.api.post(collection(servers.api, manifest), manifest)
    try:
        yield ("--dry-run=server", "--kubeconfig", str(servers.kubeconfig))
    finally:
        for manifest in objects:
            path = collection(servers.api, manifest)
            servers.api.delete(f"{path}/{manifest['metadata']['name']}", propagationPolicy="Background")


def replicas(text):
    (workload,) = (m for m in manifests(text) if m["kind"] in ("Deployment", "StatefulSet"))
    return workload["spec"]["replicas"]


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
            with self.subTest(changed), cluster(self.live) as options:
                said = refused(*self.case, *sets(changed), *options)
                self.assertIn("StatefulSet ids-raindrop: its volume cannot change from", said)
                self.assertIn("; keep store.sqlite, or follow docs/kubernetes.md, Fields that cannot change", said)
                self.assertIn(says, said)

    def test_a_volume_cannot_be_added(self):
        with cluster(live("kind=StatefulSet", kind="StatefulSet")) as options:
            self.assertIn("cannot change from none to 5368709120 bytes", refused(*self.case, *options))

    def test_another_selector_is_refused(self):
        values = ("fullnameOverride=ids", "nameOverride=drops")
        for kind in ("Deployment", "StatefulSet"):
            found = live("fullnameOverride=ids", f"kind={kind}", kind=kind)
            with self.subTest(kind=kind), cluster(found) as options:
                said = refused(*sets(*values, f"kind={kind}"), *options)
                self.assertIn(f"{kind} ids: its selector cannot change from", said)
                self.assertIn('"app.kubernetes.io/name":"drops"', said)
                self.assertIn("; keep nameOverride, or follow docs/kubernetes.md, Fields that cannot change", said)


class Store(unittest.TestCase):
    SECRET = ("store.existingSecret=raindrop-store",)
    SQLITE = ("store.sqlite.enabled=true", "kind=StatefulSet", "replicaCount=1")

    def objects(self, *values, kind="Deployment", **spec):
        """The configuration and the workload that an installation leaves in the cluster."""
        return only(template(*sets(*values)), "ConfigMap", "ids-raindrop"), live(*values, kind=kind, **spec)

    def test_the_same_store_is_taken(self):
        for was, becomes in [
            ((), ("replicaCount=3", "store.url=kubernetes:")),
            (self.SECRET, ("store.url=mysql://u@db/app",)),
            (self.SECRET, (*self.SECRET, "kind=StatefulSet")),
        ]:
            with self.subTest(becomes=becomes), cluster(*self.objects(*was)) as options:
                render(*sets(*becomes), *options)

    def test_another_store_is_refused_while_nodes_run(self):
        api, secret, file = "the Kubernetes API (segment_table = ", "the store URL of a Secret", "a SQLite file"
        for was, becomes, says in [
            (self.SECRET, (), f"from {secret} to {api}"),
            ((), self.SECRET, f'worker_table = "ids_raindrop_worker") to {secret}'),
            ((), ("config.store.worker_table=other",), '_segment", worker_table = "other")'),
            (self.SECRET, self.SQLITE, f"from {secret} to {file}"),
        ]:
            with self.subTest(was=was, becomes=becomes), cluster(*self.objects(*was)) as options:
                said = refused(*sets(*becomes), *options)
                self.assertIn("ids-raindrop: its store cannot change from", said)
                self.assertIn(says, said)
                self.assertIn(f" {WHY}", said)

    def test_pods_without_their_deployment_count_as_running(self):
        configuration, _ = self.objects(*self.SECRET)
        with cluster(configuration) as options:
            self.assertIn("its store cannot change", refused(*options))

    def test_another_store_is_taken_when_no_node_runs(self):
        with cluster(*self.objects(*self.SECRET, replicas=0)) as options:
            render(*options)
        stopped = self.objects(*self.SQLITE, kind="StatefulSet", replicas=0)
        with cluster(*stopped) as options:
            render(*options)

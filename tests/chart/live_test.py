"""What depends on the objects that a cluster has: the number of nodes, and fields that cannot change."""

import unittest

from chart import ENOUGH, HERE, manifests, of_case, only, refused, sets, template
from cluster import cluster

SCALED = ("autoscaling.enabled=true", "autoscaling.minReplicas=3")


def live(*values, kind="Deployment", **spec):
    """What an installation with these values leaves in the cluster."""
    found = only(template(*ENOUGH, *sets(*values)), kind)
    found["spec"].update(spec)
    return found


def replicas(text):
    (workload,) = (m for m in manifests(text) if m["kind"] in ("Deployment", "StatefulSet"))
    return workload["spec"]["replicas"]


class Replicas(unittest.TestCase):
    def test_autoscaling_keeps_the_number_that_runs(self):
        for kind in ("Deployment", "StatefulSet"):
            values = (*SCALED, f"kind={kind}")
            with self.subTest(kind=kind), cluster(live(f"kind={kind}", kind=kind, replicas=7)) as options:
                self.assertEqual(replicas(template(*ENOUGH, *sets(*values), *options)), 7)

    def test_what_was_scaled_to_zero_stays_there(self):
        with cluster(live(replicas=0)) as options:
            self.assertEqual(replicas(template(*ENOUGH, *sets(*SCALED), *options)), 0)

    def test_an_installation_starts_with_the_fewest(self):
        with cluster() as options:
            self.assertEqual(replicas(template(*ENOUGH, *sets(*SCALED), *options)), 3)

    def test_without_a_cluster_there_are_never_fewer_than_the_fewest(self):
        self.assertEqual(replicas(template(*ENOUGH, *sets(*SCALED))), 3)

    def test_without_autoscaling_the_values_decide(self):
        with cluster(live(replicas=7)) as options:
            self.assertEqual(replicas(template(*ENOUGH, *options)), 2)


class Immutable(unittest.TestCase):
    def setUp(self):
        self.case = ("--values", str(HERE / "cases" / "sqlite.yaml"))
        self.live = only(of_case(HERE / "cases" / "sqlite.yaml"), "StatefulSet")
        # As the API server keeps it.
        claim = self.live["spec"]["volumeClaimTemplates"][0]
        claim["spec"].update({"volumeMode": "Filesystem"})
        claim["status"] = {"phase": "Pending"}

    def test_a_volume_that_stays_is_taken(self):
        for same in ("5Gi", "5120Mi"):
            with self.subTest(size=same), cluster(self.live) as options:
                template(*self.case, *sets(f"store.sqlite.size={same}"), *options)

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
                said = refused(*ENOUGH, *sets(*values, f"kind={kind}"), *options)
                self.assertIn(f"{kind} ids: its selector cannot change from", said)
                self.assertIn('"app.kubernetes.io/name":"drops"', said)
                self.assertIn("; keep nameOverride, or follow docs/kubernetes.md, Fields that cannot change", said)

"""A real API server takes every manifest of the chart, and admits the Pods where it enforces the restricted
Pod Security Standard."""

import json
import unittest

from chart import CASES, manifests, of_case, template
from control_plane import ApiError, collection, collections, control_plane

# Kinds of other projects, which this cluster does not have: render_test.py checks them by schemas.
FOREIGN = {"Certificate", "HTTPRoute", "PodMonitor", "PrometheusRule", "ServiceMonitor"}
# Its containers are placeholders, and have no security context.
NOT_RESTRICTED = {"everything"}


def setUpModule():
    unittest.enterModuleContext(control_plane().namespace("dry-run"))


def renderings():
    yield "default", template()
    for path in CASES:
        yield path.stem, of_case(path)


def dry_run(manifest):
    """What the API server makes of a manifest, or ApiError; it keeps nothing."""
    api = control_plane().api
    manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": "dry-run"}}
    options = {"dryRun": "All", "fieldValidation": "Strict"}
    return api.post(collection(api, manifest), manifest, **options)


def pod_of(workload):
    """The Pod that a workload's controller would create, with an account that is there."""
    pod = json.loads(json.dumps(workload["spec"]["template"]))
    pod["metadata"].update({"name": "pod-0"})
    pod["spec"]["serviceAccountName"] = "default"
    # The controller of a StatefulSet adds this label.
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = "0"
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        volume = {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-pod-0"}}
        pod["spec"]["volumes"].append(volume)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


class Admission(unittest.TestCase):
    def test_every_manifest_is_taken(self):
        seen = set()
        for case, text in renderings():
            for manifest in manifests(text):
                kind = manifest["kind"]
                if kind in FOREIGN:
                    continue
                with self.subTest(case=case, kind=kind):
                    answer = dry_run(manifest)
                    self.assertEqual(answer["metadata"]["name"], manifest["metadata"]["name"])
                    seen.add(kind)
        expected = {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy"}
        expected |= {"PodDisruptionBudget", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount"}
        self.assertLessEqual({*expected, "Pod", "StatefulSet"}, seen)

    def test_pods_are_admitted_where_the_restricted_standard_is_enforced(self):
        checked = 0
        for case, text in renderings():
            for workload in manifests(text):
                if workload["kind"] in ("Deployment", "StatefulSet") and case not in NOT_RESTRICTED:
                    with self.subTest(case=case):
                        dry_run(pod_of(workload))
                        checked += 1
        self.assertEqual(checked, len(CASES) + 1 - len(NOT_RESTRICTED))

    def test_a_pod_that_may_do_more_is_refused(self):
        (workload,) = (m for m in manifests(template()) if m["kind"] == "Deployment")
        pod = pod_of(workload)
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with self.assertRaisesRegex(ApiError, 'violates PodSecurity \\\\"restricted'):
            dry_run(pod)

    def test_an_unknown_field_is_refused(self):
        (workload,) = (m for m in manifests(template()) if m["kind"] == "Deployment")
        workload["spec"]["repicas"] = 2
        with self.assertRaisesRegex(ApiError, "repicas"):
            dry_run(workload)

    def test_the_foreign_kinds_are_not_there(self):
        """Otherwise they could be tested here too."""
        api = control_plane().api
        versions = {group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]}
        kinds = {kind for version in versions for kind in collections(api, version)}
        self.assertEqual(kinds & FOREIGN, set())

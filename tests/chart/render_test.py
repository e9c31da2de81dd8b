"""The manifests: linted, valid by Kubernetes' schemas, as the golden files keep them."""

import copy
import difflib
import json
import os
import pathlib
import re
import shutil
import tempfile
import tomllib
import unittest

import jsonschema
import kubernetes_validate
import yaml

from chart import (
    CASES,
    CHART,
    HERE,
    KUBERNETES,
    LOADER,
    assert_golden,
    helm,
    manifests,
    notes,
    of_case,
    only,
    run,
    sets,
    template,
    without_files,
)

# Kinds of other projects, whose schemas are in this folder.
FOREIGN = ("monitoring.coreos.com/", "cert-manager.io/", "gateway.networking.k8s.io/")


def validate(manifest, kubernetes):
    """By Kubernetes' own schema, or by the one kept here of other kinds."""
    if manifest["apiVersion"].startswith(FOREIGN):
        schema = HERE / "schemas" / f"{manifest['kind'].lower()}.json"
        jsonschema.validate(manifest, json.loads(schema.read_text()))
    else:
        known = copy.deepcopy(manifest)
        if manifest["kind"] == "Service" and kubernetes == KUBERNETES[0]:
            # Newer than that; the chart refuses it there.
            known["spec"].pop("trafficDistribution", None)
        kubernetes_validate.validate(known, kubernetes, strict=True)


class OnceLoader(LOADER):
    """Refuses a map with a key twice, of which the usual loader takes the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError(f"a key is there twice: {keys}")
        return super().construct_mapping(node, deep)


class Render(unittest.TestCase):
    maxDiff = None

    def test_lint_finds_nothing(self):
        for values in [[], *(["--values", path] for path in CASES)]:
            with self.subTest(values=values):
                result = helm("lint", "--strict", "--kube-version", "1.31.0", CHART, *values)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_manifests_are_valid(self):
        seen = set()
        for text in [template(), *map(of_case, CASES)]:
            for manifest in manifests(text):
                key = json.dumps(manifest, sort_keys=True)
                for kubernetes in KUBERNETES if key not in seen else []:
                    with self.subTest(kind=manifest["kind"], kubernetes=kubernetes):
                        validate(manifest, kubernetes)
                seen.add(key)
        self.assertGreater(len(seen), 20)

    def test_an_unknown_field_is_found(self):
        kinds = {"Deployment": "gateway", "HTTPRoute": "gateway", "PodMonitor": "gateway"}
        for kind, case in {**kinds, "ServiceMonitor": "monitoring", "PrometheusRule": "monitoring"}.items():
            manifest = only(of_case(HERE / "cases" / f"{case}.yaml"), kind)
            manifest["spec"]["repicas"] = 2
            with self.subTest(kind=kind), self.assertRaises(jsonschema.ValidationError):
                validate(manifest, KUBERNETES[0])

    def test_defaults_are_golden(self):
        assert_golden(self, "default.yaml", without_files(template()))

    def test_cases_differ_from_the_defaults_as_they_should(self):
        default = without_files(template()).splitlines(True)
        for path in CASES:
            with self.subTest(case=path.stem):
                rendered = without_files(of_case(path)).splitlines(True)
                lines = difflib.unified_diff(default, rendered, "default", path.stem, n=2)
                assert_golden(self, f"{path.stem}.diff", "".join(lines))

    def test_no_golden_file_is_left_over(self):
        known = {
            "default.yaml",
            *(f"{path.stem}.diff" for path in CASES),
            *(f"{path.stem}.txt" for path in CASES),
        }
        self.assertLessEqual({path.name for path in (HERE / "golden").iterdir()}, {*known, "default.txt"})

    def test_files_are_carried_as_they_are(self):
        dashboard = only(of_case(HERE / "cases" / "monitoring.yaml"), "ConfigMap", "ids-raindrop-dashboard")
        self.assertEqual(
            dashboard["data"], {"raindrop.json": (CHART / "files" / "dashboard.json").read_text()}
        )
        script = only(template(), "Pod")["spec"]["containers"][0]["args"]
        self.assertEqual(script, [(CHART / "files" / "test.sh").read_text()])

    def test_the_check_of_the_configuration_has_what_the_service_has(self):
        for path in CASES:
            (workload,) = (m for m in manifests(of_case(path)) if m["kind"] in ("Deployment", "StatefulSet"))
            spec = workload["spec"]["template"]["spec"]
            with self.subTest(case=path.stem):
                # After the user's, which may write files that it reads.
                check, service = spec["initContainers"][-1], spec["containers"][0]
                own = {"name": "check-config", "args": ["config", *service["args"][1:]], "terminationMessagePolicy": "FallbackToLogsOnError"}
                of_service = {"name", "args", "ports", "lifecycle", "startupProbe", "livenessProbe", "readinessProbe"}
                shared = {key: value for key, value in service.items() if key not in of_service}
                self.assertEqual(check, {**own, **shared})

    def test_no_key_is_there_twice(self):
        for path in CASES:
            with self.subTest(case=path.stem):
                list(yaml.load_all(of_case(path), OnceLoader))
        with self.assertRaisesRegex(yaml.YAMLError, "twice"):
            yaml.load("a: {b: 1, b: 2}", OnceLoader)

    def test_what_is_common_is_everywhere_once_and_yields_to_what_is_said_of_one_object(self):
        text = of_case(HERE / "cases" / "conventions.yaml")
        for manifest in manifests(text):
            metadata = manifest["metadata"]
            with self.subTest(kind=manifest["kind"], name=metadata["name"]):
                self.assertEqual(metadata["namespace"], "ids")
                self.assertEqual(metadata["labels"]["team"], "platform")
                self.assertEqual(metadata["annotations"]["example.org/owner"], "platform")
        self.assertEqual(only(text, "ServiceAccount")["metadata"]["annotations"]["example.org/role"], "ids")
        self.assertEqual(only(text, "ServiceMonitor")["metadata"]["labels"]["tier"], "monitoring")
        pods = only(text, "Deployment")["spec"]["template"]["metadata"]
        self.assertEqual((pods["labels"]["team"], pods["labels"]["tier"]), ("platform", "core"))
        self.assertNotIn("example.org/owner", pods["annotations"])

    def test_openshift_chooses_user_and_groups(self):
        text = template(*sets("openshift.enabled=true"))
        for pod in (only(text, "Deployment")["spec"]["template"], only(text, "Pod")):
            context = pod["spec"]["securityContext"]
            self.assertIs(context["runAsNonRoot"], True)
            self.assertFalse({"runAsUser", "runAsGroup", "fsGroup"} & set(context))

    def test_hosts_of_the_ingress_may_have_paths_of_their_own(self):
        rules = only(of_case(HERE / "cases" / "conventions.yaml"), "Ingress")["spec"]["rules"]
        found = {
            rule["host"]: [(path["path"], path["pathType"]) for path in rule["http"]["paths"]] for rule in rules
        }
        of_all = [(path, "Exact") for path in ("/id", "/ids", "/parse", "/bounds")]
        self.assertEqual(found, {"a.example.org": of_all, "b.example.org": [("/id", "Exact"), ("/ids", "Prefix")]})

    def test_a_port_alone_is_that_port_of_every_address(self):
        text = template("--set-json", 'config.http.listen=":8081"')
        config = tomllib.loads(only(text, "ConfigMap")["data"]["raindrop.toml"])["http"]
        self.assertEqual((config["listen"], config["admin_listen"]), ("[::]:8081", "[::]:9090"))
        (service,) = only(text, "Deployment")["spec"]["template"]["spec"]["containers"]
        self.assertEqual(service["ports"][0]["containerPort"], 8081)

    def test_the_chart_knows_the_worker_ids_of_every_preset(self):
        helpers = (CHART / "templates" / "_check_workers.tpl").read_text()
        words = re.search(r'dict ("raindrop" .*) \| toJson', helpers)[1].split()
        known = {name.strip('"'): int(bits) for name, bits in zip(words[::2], words[1::2])}
        told = run(os.environ["RAINDROP"], "plan", "--preset", "none").stderr
        self.assertEqual({*known}, {*told.partition("must be one of ")[2].strip().split(", ")})
        for name, bits in known.items():
            plan = json.loads(run(os.environ["RAINDROP"], "plan", "--preset", name, "--json").stdout)
            with self.subTest(preset=name):
                self.assertIn({"name": "worker_id", "bits": bits}, [
                    {key: field[key] for key in ("name", "bits")} for field in plan["fields"]
                ])

    def test_a_strategy_without_rolling_updates_needs_no_null(self):
        def strategy(kind, name, *values):
            return only(template(*sets(f"kind={kind}", *values)), kind)["spec"][name]

        self.assertEqual(strategy("Deployment", "strategy", "strategy.type=Recreate"), {"type": "Recreate"})
        given = ("updateStrategy.type=OnDelete", "updateStrategy.rollingUpdate.partition=1")
        self.assertEqual(strategy("StatefulSet", "updateStrategy", *given), {"type": "OnDelete"})

    def test_the_icon_is_in_the_chart(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        root = CHART.parent.parent
        repository = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
        self.assertEqual(chart["home"], repository)
        self.assertIn("<svg", (root / chart["icon"].removeprefix(f"{repository}/")).read_text())

    def test_notes_say_what_is_not_secured(self):
        for name, values in [("default", []), *((path.stem, ["--values", path]) for path in CASES)]:
            with self.subTest(case=name):
                text = notes(*values)
                self.assertIn("What is NOT secured", text)
                if name in ("default", "everything", "gateway", "kubernetes", "secret", "sqlite"):
                    assert_golden(self, f"{name}.txt", text)

    def test_the_values_of_an_enclosing_chart_count(self):
        given = sets("global.imageRegistry=mirror.example.org", "global.imagePullSecrets={a,b}")
        text = template(*given, *sets("image.registry=registry.example.org", "imagePullSecrets[0].name=b"))
        pods = [only(text, "Deployment")["spec"]["template"], only(text, "Pod")]
        for pod in pods:
            self.assertEqual(pod["spec"]["imagePullSecrets"], [{"name": "a"}, {"name": "b"}])
            image = pod["spec"]["containers"][0]["image"]
            self.assertRegex(image, "^mirror.example.org/(raindrop|curlimages/curl):[0-9.]+$")
        # What others read is not looked at.
        template("--set-json", 'global={"other": {"number": 9007199254740993}}')

    def test_another_version_of_the_chart_restarts_no_pod(self):
        with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
            shutil.copytree(CHART, f"{folder}/raindrop")
            file = pathlib.Path(folder, "raindrop", "Chart.yaml")
            file.write_text(re.sub("(?m)^version: .*$", "version: 9.9.9", file.read_text()))
            result = helm("template", "ids", f"{folder}/raindrop", "--namespace", "apps", "--kube-version", "1.31.0")
        before, after = only(template(), "Deployment"), only(result.stdout, "Deployment")
        self.assertEqual(after["metadata"]["labels"]["helm.sh/chart"], "raindrop-9.9.9")
        self.assertEqual(after["spec"], before["spec"])

    def test_a_changed_configuration_or_address_restarts_the_pods(self):
        def annotations(*values):
            return only(template(*values), "Deployment")["spec"]["template"]["metadata"]["annotations"]

        base = annotations("--set", "store.url=mysql://a@db/x")
        self.assertEqual(base, annotations("--set", "store.url=mysql://a@db/x", "--set", "replicaCount=5"))
        for changed in [["store.url=mysql://b@db/x"], ["store.url=mysql://a@db/x", "config.log.level=debug"]]:
            sets = [word for value in changed for word in ("--set", value)]
            self.assertNotEqual(base, annotations(*sets))

"""The rendered configuration is what the service takes, and `helm test` passes against it."""

import os
import pathlib
import re
import tempfile
import tomllib
import unittest

from chart import CASES, HERE, manifests, of_case, only, refused, run, sets, template
from service import BINARY, served


def configuration(text):
    (toml,) = (
        manifest["data"]["raindrop.toml"]
        for manifest in manifests(text)
        if manifest["kind"] == "ConfigMap" and "raindrop.toml" in manifest.get("data", {})
    )
    return toml


def effective(toml, environment=None):
    """What `raindrop config` makes of a file: {key: value}."""
    with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
        file, address = pathlib.Path(folder, "raindrop.toml"), pathlib.Path(folder, "url")
        tokens = pathlib.Path(folder, "tokens.toml")
        tokens.write_text('[[token]]\nname = "shop"\nhash = "sha256:%s"\n' % ("0" * 64))
        file.write_text(toml)
        address.write_text("mysql://root@db/ids\n")
        # The mounted files are elsewhere here.
        mounted = {"RAINDROP__STORE__URL_FILE": str(address)} if "url_file" in toml else {}
        if "password_file" in toml:
            mounted["RAINDROP__STORE__PASSWORD_FILE"] = str(address)
        if "tokens_file" in toml:
            mounted["RAINDROP__AUTH__TOKENS_FILE"] = str(tokens)
        result = run(
            BINARY, "config", "--config", str(file), cwd=folder, env={**mounted, **(environment or {})}
        )
        return result


class Configuration(unittest.TestCase):
    def test_the_service_takes_what_every_case_renders(self):
        for name, text in [("default", template()), *((path.stem, of_case(path)) for path in CASES)]:
            with self.subTest(case=name):
                toml = configuration(text)
                tomllib.loads(toml)
                # A pod's name, as a StatefulSet gives it, has no place in a test's environment.
                by_name = {"RAINDROP__WORKER__SOURCE": "ip"} if name == "memory" else {}
                if name == "memory":
                    toml = toml.replace('url_file = "/etc/raindrop-store/url"', 'url = "memory:"')
                result = effective(toml, by_name)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_key_that_the_service_does_not_know_is_found_by_this(self):
        result = effective(configuration(template("--set", "config.http.lisen=1")))
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("http.lisen", result.stderr)

    def test_values_arrive_as_they_were_given(self):
        given = tomllib.loads(configuration(of_case(HERE / "cases" / "url.yaml")))
        self.assertEqual(
            given["layout"], {"time_unit": "second", "epoch": "2024-06-01T00:00:00Z", "timestamp_bits": 33}
        )
        self.assertEqual(given["http"]["max_batch"], 20000)
        self.assertIs(type(given["http"]["max_batch"]), int)
        self.assertEqual(given["http"]["cors_origins"], ["https://a.example", "https://b.example"])
        self.assertIs(given["codes"]["shared"], True)
        self.assertEqual(given["log"], {"level": "debug"})
        self.assertEqual(given["store"], {"url_file": "/etc/raindrop-store/url"})
        secret = only(of_case(HERE / "cases" / "url.yaml"), "Secret")["stringData"]["url"]
        self.assertEqual(secret, 'mysql://raindrop:p"%5E$@db.apps.svc:3306,db2.apps.svc/ids?ssl-mode=VERIFY_IDENTITY&charset=<1>')

    def test_tables_in_tables_and_lists_of_tables_are_toml(self):
        values = {
            "config.namespaces": '{"legacy":{"layout":{"preset":"js-safe"},"codes":{"allow":["a","b"]}},"other":{}}',
            "config.code": '[{"name":"order","namespace":"legacy","limits":{"ratio":0.5}},{"name":"user"}]',
            "config.empty": "[]",
            "config.text": '"quote \\" backslash \\\\ newline \\n é <&>"',
            "config.nothing": "null",
        }
        sets = [word for name, value in values.items() for word in ("--set-json", f"{name}={value}")]
        given = tomllib.loads(configuration(template(*sets)))
        self.assertEqual(
            given["namespaces"],
            {"legacy": {"layout": {"preset": "js-safe"}, "codes": {"allow": ["a", "b"]}}, "other": {}},
        )
        self.assertEqual(
            given["code"],
            [{"name": "order", "namespace": "legacy", "limits": {"ratio": 0.5}}, {"name": "user"}],
        )
        self.assertEqual(given["empty"], [])
        self.assertEqual(given["text"], 'quote " backslash \\ newline \n é <&>')
        self.assertNotIn("nothing", given)

    def test_the_chart_knows_the_worker_bits_of_every_preset(self):
        text = (HERE.parent.parent / "docs" / "layouts.md").read_text()
        presets = re.findall(r"(?m)^\| `([a-z0-9-]+)` \| \d+ · \d+ · (\d+) · \d+ · \d+ · \d+ \|", text)
        self.assertEqual(len(presets), 15)
        for name, bits in presets:
            with self.subTest(preset=name):
                said = refused(*sets(f"config.layout.preset={name}", "config.worker.max_id=0"))
                self.assertIn(f"more worker bits than {bits},", said)

    def test_enough_worker_ids_are_taken(self):
        for values in [
            ("config.layout.preset=js-safe", "replicaCount=30"),
            ("config.layout.preset=js-safe", "replicaCount=31", "strategy.type=Recreate"),
            ("config.layout.preset=js-safe", "replicaCount=31", "kind=StatefulSet"),
            ("config.worker.min_id=0", "config.worker.max_id=2"),
            # Its worker ids are its own; and segment mode has none.
            ("config.worker.max_id=1", "config.mode=segment"),
            ("config.worker.max_id=1", "config.mode=segment", "config.namespaces.web.worker.max_id=3"),
            # The environment decides.
            ("config.worker.max_id=1", "extraEnv[0].name=RAINDROP__WORKER__MAX_ID", "extraEnv[0].value=9"),
        ]:
            with self.subTest(values=values):
                template(*sets(*values))

    def test_authentication_is_configured_beside_the_token_file(self):
        given = tomllib.loads(configuration(of_case(HERE / "cases" / "auth.yaml")))["auth"]
        self.assertEqual(
            given, {"tokens_file": "/etc/raindrop-auth/tokens.toml", "max_requests_per_token": 50}
        )

    def test_a_stateful_node_asks_for_the_worker_it_had(self):
        text = of_case(HERE / "cases" / "statefulset.yaml")
        self.assertIs(tomllib.loads(configuration(text))["worker"]["prefer_previous"], True)
        kept = template("--set", "kind=StatefulSet", "--set", "config.worker.prefer_previous=false")
        self.assertIs(tomllib.loads(configuration(kept))["worker"]["prefer_previous"], False)


    def test_a_release_has_tables_of_its_own_in_the_kubernetes_api(self):
        def tables(name, *values):
            store = tomllib.loads(configuration(template(*sets(f"fullnameOverride={name}", *values))))["store"]
            return store.get("worker_table"), store.get("segment_table")

        self.assertEqual(tables("ids-raindrop"), ("ids_raindrop_worker", "ids_raindrop_segment"))
        # The longest name that fits as it is, and longer ones that begin alike.
        names = ["a" * 40, "a" * 41, "a" * 50, "a-" + "b" * 40, "a-" + "b" * 41]
        found = [table for name in names for table in tables(name)]
        self.assertEqual(found[0], "a" * 40 + "_worker")
        for table in found:
            self.assertRegex(table, r"^[a-z0-9]([a-z0-9_]{0,46}[a-z0-9])?$")
        self.assertEqual(len(set(found)), 2 * len(names))
        given = tables("ids", "config.store.worker_table=old_worker", "config.store.segment_table=null")
        self.assertEqual(given, ("old_worker", "ids_segment"))
        # Databases keep the service's own names.
        self.assertEqual(tables("ids", "store.existingSecret=raindrop-store"), (None, None))

    def test_a_namespace_that_the_environment_defines_may_decide_readiness(self):
        name = "extraEnv[0].name=RAINDROP__NAMESPACES__WEB__MODE"
        text = template(*sets("readinessNamespace=web", name, "extraEnv[0].value=segment"))
        probe = only(text, "Deployment")["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
        self.assertEqual(probe["httpGet"]["path"], "/readyz?namespace=web")


class HelmTest(unittest.TestCase):
    def setUp(self):
        container = only(template(), "Pod")["spec"]["containers"][0]
        self.command = [*container["command"], *container["args"]]

    def test_it_passes_against_a_service_and_its_own_configuration(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            toml = configuration(template())
            # The address is given by the environment here.
            file.write(re.sub("(?m)^url = .*$", "", toml))
            file.flush()
            with served(file.name) as url:
                result = run(*self.command, env={"URL": url, "no_proxy": "*"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^issued and parsed \d+\n$")

    def test_it_passes_against_a_service_with_tls_that_wants_tokens(self):
        with served(secured=True) as url:
            result = run(*self.command, env={"URL": url, "TOKENS": "needed", "no_proxy": "*"})
        self.assertEqual((result.returncode, result.stdout), (0, "requests need a token\n"), result.stderr)

    def test_it_fails_where_no_ids_are(self):
        with tempfile.TemporaryDirectory() as folder:
            # A `curl` that answers as something else would.
            fake = pathlib.Path(folder, "curl")
            fake.write_text("#!/bin/sh\necho '<html>'\n")
            fake.chmod(0o755)
            path = f"{folder}:{os.environ['PATH']}"
            result = run(*self.command, env={"URL": "http://127.0.0.1:9", "PATH": path})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("failed: GET /id/helm-test answered <html>", result.stderr)

"""The rendered configuration is what the service takes, and `helm test` passes against it."""

import json
import os
import pathlib
import re
import socket
import tempfile
import tomllib
import unittest

from chart import CASES, CHART, HERE, manifests, of_case, only, refused, render, run, sets, template
from service import BINARY, served


def configuration(text):
    (toml,) = (
        manifest["data"]["raindrop.toml"]
        for manifest in manifests(text)
        if manifest["kind"] == "ConfigMap" and "raindrop.toml" in manifest.get("data", {})
    )
    return toml


def environment(text):
    """The variables of the service's container that have a value: {name: value}."""
    (workload,) = (m for m in manifests(text) if m["kind"] in ("Deployment", "StatefulSet"))
    container = workload["spec"]["template"]["spec"]["containers"][0]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def store(text):
    """What the environment says of the store: {key: value}."""
    prefix = "RAINDROP__STORE__"
    found = environment(text).items()
    return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}


def effective(text, environment=None):
    """What `raindrop config` makes of the rendered file, and of what the environment says of the store."""
    toml = configuration(text)
    with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
        file, address = pathlib.Path(folder, "raindrop.toml"), pathlib.Path(folder, "url")
        tokens = pathlib.Path(folder, "tokens.toml")
        tokens.write_text('[[token]]\nname = "shop"\nhash = "sha256:%s"\n' % ("0" * 64))
        file.write_text(toml)
        address.write_text("mysql://root@db/ids\n")
        # The mounted files are elsewhere here.
        mounted = {f"RAINDROP__STORE__{name}": value for name, value in store(text).items()}
        if mounted["RAINDROP__STORE__URL_FILE"]:
            mounted["RAINDROP__STORE__URL_FILE"] = str(address)
        if "password_file" in toml:
            mounted["RAINDROP__STORE__PASSWORD_FILE"] = str(address)
        if "tokens_file" in toml:
            mounted["RAINDROP__AUTH__TOKENS_FILE"] = str(tokens)
        result = run(
            BINARY, "config", "--config", str(file), cwd=folder, env={**mounted, **(environment or {})}
        )
        return result


class Configuration(unittest.TestCase):
    def of_values(self, values, *arguments, by=render):
        """What helm makes of a values file."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(values)
            file.flush()
            options = ("--values", file.name, *arguments)
            return by(*options)

    def test_the_service_takes_what_every_case_renders(self):
        for name, text in [("default", template()), *((path.stem, of_case(path)) for path in CASES)]:
            with self.subTest(case=name):
                tomllib.loads(configuration(text))
                # A pod's name, as a StatefulSet gives it, has no place in a test's environment.
                by_name = {"RAINDROP__WORKER__SOURCE": "ip"} if name == "memory" else {}
                if name == "memory":
                    by_name |= {"RAINDROP__STORE__URL": "memory:", "RAINDROP__STORE__URL_FILE": ""}
                result = effective(text, by_name)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_key_that_the_service_does_not_know_is_found_by_this(self):
        result = effective(template("--set", "config.http.lisen=1"))
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
        self.assertNotIn("store", given)
        secret = only(of_case(HERE / "cases" / "url.yaml"), "Secret")["stringData"]["url"]
        self.assertEqual(secret, 'mysql://raindrop:p"%5E$@db.apps.svc:3306,db2.apps.svc/ids?ssl-mode=VERIFY_IDENTITY&charset=<1>')

    def test_tables_in_tables_and_lists_of_tables_are_toml(self):
        values = {
            "config.namespaces": '{"legacy":{"layout":{"preset":"js-safe"},"codes":{"allow":["a","b"]}},"other":{}}',
            "config.list": '[{"name":"order","namespace":"legacy","limits":{"ratio":0.5}},{"name":"user"}]',
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
            given["list"],
            [{"name": "order", "namespace": "legacy", "limits": {"ratio": 0.5}}, {"name": "user"}],
        )
        self.assertEqual(given["empty"], [])
        self.assertEqual(given["text"], 'quote " backslash \\ newline \n é <&>')
        self.assertNotIn("nothing", given)

    def test_large_numbers_in_quotes_arrive_exactly(self):
        large = (9007199254740991, 9007199254740993, 4611686018427388417, 9223372036854775806)
        codes = "".join(f'    - {{name: c{number}, start: "{number}"}}\n' for number in large)
        text = self.of_values(f'config:\n  mode: segment\n  segment: {{max_step: "1000"}}\n  code:\n{codes}')
        given = tomllib.loads(configuration(text))
        self.assertEqual([code["start"] for code in given["code"]], list(large))
        self.assertEqual(given["segment"], {"max_step": 1000})
        result = effective(text)
        self.assertEqual(result.returncode, 0, result.stderr)
        for number in large:
            self.assertRegex(result.stdout, rf"(?m)^\[\[code\]\] c{number}: start += {number} ")
        by_option = template(*sets("config.code[0].name=a"), "--set-string", f"config.code[0].start={large[1]}")
        self.assertEqual(tomllib.loads(configuration(by_option))["code"], [{"name": "a", "start": large[1]}])

    def test_large_numbers_without_quotes_are_refused(self):
        """By --set they are whole numbers, which Helm rounds at the next upgrade."""
        for number in (9007199254740992, 9007199254740993, 4611686018427388417):
            values = f"config: {{code: [{{name: order, start: {number}}}]}}"
            by_set = sets(f"config.code[0].start={number}")
            with self.subTest(number=number):
                for said in (self.of_values(values, by=refused), refused(*by_set)):
                    self.assertIn("/config/code/0/start': value must be 'a number in quotes", said)
                skip = "--skip-schema-validation"
                for said in (self.of_values(values, skip, by=refused), refused(*by_set, skip)):
                    self.assertIn(f"config.code[0].start = {number:.0f}, perhaps rounded by Helm", said)
        taken = self.of_values("config: {code: [{name: order, start: 9007199254740991}]}")
        self.assertEqual(tomllib.loads(configuration(taken))["code"][0]["start"], 9007199254740991)

    def test_texts_that_are_no_whole_numbers_stay_texts(self):
        texts = {"a": "007", "b": "1e5", "c": "0x10", "d": "", "e": "9223372036854775808", "f": "1.0", "g": "+1"}
        given = configuration(template("--set-json", f"config.texts={json.dumps(texts)}"))
        self.assertEqual(tomllib.loads(given)["texts"], texts)

    def test_enough_worker_ids_are_taken(self):
        for values in [
            ("config.layout.worker_bits=5", "replicaCount=30"),
            ("config.layout.worker_bits=5", "replicaCount=31", "strategy.type=Recreate"),
            ("config.layout.worker_bits=5", "replicaCount=31", "kind=StatefulSet"),
            ("config.worker.min_id=0", "config.worker.max_id=2"),
            # Its worker ids are its own; and segment mode has none.
            ("config.worker.max_id=1", "config.mode=segment"),
            ("config.worker.max_id=1", "config.mode=segment", "config.namespaces.web.worker.max_id=3"),
            ("config.layout.preset=js-safe", "replicaCount=30"),
            ("config.layout.preset=sonyflake", "replicaCount=600"),
            # Neither a preset that does not exist has bits here, nor is it known what the environment sets.
            ("config.layout.preset=nope", "replicaCount=600"),
            ("config.worker.max_id=1", "extraEnv[0].name=RAINDROP__WORKER__MAX_ID", "extraEnv[0].value=9"),
        ]:
            with self.subTest(values=values):
                template(*sets(*values))

    def test_the_service_refuses_what_the_chart_leaves_to_it(self):
        """In the container `check-config`, before any node uses it."""
        skip = "--skip-schema-validation"
        memory = sets("store.url=memory:", "kind=StatefulSet", "replicaCount=1", "config.worker.id=1")
        in_memory = {"RAINDROP__STORE__URL": "memory:", "RAINDROP__STORE__URL_FILE": ""}
        secret = sets("store.existingSecret=a")
        client_ca = sets("tls.existingSecret=a", "tls.clientCA.existingSecret=a")
        for values, environment, says in [
            (sets("config.layout.preset=nope"), {}, "layout.preset = nope "),
            (sets("config.layout.worker_bits=17"), {}, "layout.worker_bits = 17 "),
            (sets("config.worker.max_id=512"), {}, "worker.max_id = 512 "),
            (sets("config.lease.ttl=90"), {}, "lease.ttl = 90 "),
            (sets("config.leese.ttl=90s"), {}, "leese "),
            (sets("config.mode=segment", "config.code[0].name=a", "config.code[0].start=-1"), {}, "[[code]] a: start = -1 "),
            (sets("admin.port=8080"), {}, "http.admin_listen = [::]:8080 "),
            ([*memory, *sets("stateFile.enabled=true")], in_memory, "store.state_file = /var/lib/raindrop-state/state "),
            (client_ca, {}, "must be used with auth.tokens_file"),
            (sets("tls.existingSecret=a", "tls.clientCRL.existingSecret=a"), {}, "must be used with http.tls.client_ca_file"),
            ([*sets("config.http.drain_delay=5"), skip], {}, "http.drain_delay = 5 "),
            ([*sets("config.http.shutdown_timeout=soon"), skip], {}, "http.shutdown_timeout = soon "),
            ([*sets("config.http.listen=localhost"), skip], {}, "http.listen = localhost "),
            ([*secret, *sets("config.store.url=memory:"), skip], {}, "must be left out beside store.url"),
            ([*sets("config.store.url_file=/x"), skip], {}, "must be left out beside store.url"),
        ]:
            with self.subTest(values=values):
                result = effective(template(*values), environment)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn(says, result.stderr)
        # The environment wins.
        kept = effective(template(*sets("config.store.url=memory:"), skip))
        self.assertRegex(kept.stdout, r"(?m)^store\.url += kubernetes: ")

    def test_the_check_neither_connects_to_the_store_nor_shows_its_password(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.2)
            url = f"redis://user:of-the-store@127.0.0.1:{server.getsockname()[1]}"
            environment = {"RAINDROP__STORE__URL": url, "RAINDROP__STORE__URL_FILE": ""}
            for values, code in [([], 0), (sets("config.layout.preset=nope"), 2)]:
                result = effective(template(*values), environment)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertNotIn("of-the-store", result.stdout + result.stderr)
            with self.assertRaises(TimeoutError):
                server.accept()

    def test_the_schema_knows_the_keys_that_the_service_knows(self):
        known = json.loads((CHART / "values.schema.json").read_text())["definitions"]
        unknown = {"layout": "config.layout.x=1", "namespace": "config.namespaces.a.x=1", "code": "config.code[0].x=1"}
        for name, value in unknown.items():
            text = template(*sets(value, "config.code[0].name=a"), "--skip-schema-validation")
            found = re.search(r"\bx \(.*\): unknown key; known are (.*)", effective(text).stderr)[1].split(", ")
            self.assertEqual({key.rpartition(".")[2] for key in found}, set(known[name]["properties"]), name)
        shown = re.findall(r"(?m)^worker\.(\w+) ", effective(template()).stdout)
        self.assertEqual(set(shown), set(known["worker"]["properties"]))

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
            found = store(template(*sets(f"fullnameOverride={name}", *values)))
            return found["WORKER_TABLE"], found["SEGMENT_TABLE"]

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
        result = run(BINARY, "config", env={"RAINDROP__STORE__URL": "mysql://root@db/ids"})
        for name, table in zip(("worker", "segment"), tables("ids", "store.existingSecret=raindrop-store")):
            self.assertRegex(result.stdout, rf"(?m)^store\.{name}_table += {table} +\(default\)$")

    def test_the_environment_of_the_pods_names_the_store(self):
        """An empty variable hides one of `extraEnvFrom`, and counts as unset."""
        tables = {"WORKER_TABLE": "soc_raindrop_worker", "SEGMENT_TABLE": "soc_raindrop_segment"}
        own = {"WORKER_TABLE": "ids_raindrop_worker", "SEGMENT_TABLE": "own"}
        path, file = "/etc/raindrop-store/url", "sqlite:///var/lib/raindrop/raindrop.db"
        sqlite = ("store.sqlite.enabled=true", "kind=StatefulSet")
        for values, expected in [
            (["config.store.segment_table=own"], {"URL": "kubernetes:", "URL_FILE": "", **own}),
            (["store.url=mysql://u@db/app"], {"URL": "", "URL_FILE": path, **tables}),
            (["store.existingSecret=raindrop-store"], {"URL": "", "URL_FILE": path, **tables}),
            ([*sqlite, "replicaCount=1"], {"URL": file, "URL_FILE": "", **tables}),
        ]:
            with self.subTest(values=values):
                text = template(*sets(*values))
                self.assertEqual(store(text), expected)
                self.assertNotIn("store", tomllib.loads(configuration(text)))
        given = ("store.existingSecret=a", "config.store.tls=verify", "config.store.worker_table=b")
        kept = tomllib.loads(configuration(template(*sets(*given))))
        self.assertEqual(kept["store"], {"tls": "verify"})

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
        for values, printed in (
            ([], r"^issued and parsed \d+\n$"),
            (["config.codes.allow={order,user}"], r"^issued and parsed \d+\n$"),
            (["config.codes.allow= order\\, user"], r"^issued and parsed \d+\n$"),
            (["tests.code=a", "config.code[0].name=a", "config.code[0].prefix=A2-"], r"^issued and parsed A2-\d+\n$"),
            (["config.mode=segment"], "^requested no ID"),
            (["config.mode=segment", "config.codes.allow={order}"], r"^issued \d+\n$"),
            (["config.mode=segment", "config.segment.auto_create=true", "tests.code=a"], r"^issued \d+\n$"),
        ):
            text = template(*sets(*values))
            given = {entry["name"]: entry["value"] for entry in only(text, "Pod")["spec"]["containers"][0]["env"]}
            with self.subTest(values=values), tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(configuration(text))
                file.flush()
                with served(file.name) as url:
                    result = run(*self.command, env={**given, "URL": url, "no_proxy": "*"})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, printed)

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
        self.assertIn("failed: GET /ids/helm-test?n=0 answered <html>", result.stderr)

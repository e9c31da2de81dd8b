"""The values: documented, described by a closed schema, and refused where they make no sense."""

import concurrent.futures
import json
import pathlib
import re
import unittest

import yaml

from chart import CHART, HERE, KUBERNETES, UPDATE, helm, manifests
from render_test import validate

# Every part of the chart, so that each value counts somewhere.
ALL = [
    *(f"--set={name}.enabled=true" for name in (
        "autoscaling", "ingress", "httpRoute", "networkPolicy", "serviceMonitor", "prometheusRule", "grafanaDashboard"
    )),
    "--set-json=ingress.hosts=[\"a.example\"]",
    "--set-json=httpRoute.parentRefs=[{\"name\":\"gate\"}]",
    "--set-json=networkPolicy.ingressFrom=[{\"podSelector\":{}}]",
    "--set-json=networkPolicy.metricsFrom=[{\"podSelector\":{}}]",
    "--set-json=tls.certificate={\"enabled\":true,\"issuerRef\":{\"name\":\"internal\"}}",
    "--set=auth.existingSecret=tokens",
    "--set=service.type=LoadBalancer",
]
REFUSED = yaml.safe_load((HERE / "refused.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def documented(lines):
    """Every value's dotted name with its `# --` comment, in order."""
    path, comment = [], None
    for line in lines:
        if found := re.match(r"^ *# -- (.*)", line):
            comment = found[1]
        elif (found := re.match(r"^ *# ?(.*)", line)) and comment is not None:
            comment += " " + found[1]
        elif found := re.match(r"^( *)([A-Za-z_]+):", line):
            path = path[: len(found[1]) // 2] + [found[2]]
            if comment is not None:
                yield ".".join(path), comment
            comment = None
        else:
            comment = None


def leaves(schema, path=()):
    """The dotted names of what the schema knows, down to free maps and Kubernetes' own objects."""
    schema = SCHEMA["definitions"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    if schema.get("additionalProperties") is False:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, (*path, name))
    else:
        yield ".".join(path)


def value_of(values, name):
    for part in name.split("."):
        values = values[part]
    return values


def rows(values, texts):
    """The rows of the README's table."""

    def default(name):
        text = json.dumps(value_of(values, name), ensure_ascii=False)
        return f"`{text}`" if len(text) < 60 else "see values.yaml"

    return [f"| `{name}` | {default(name)} | {text} |" for name, text in texts.items()]


class Values(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.text = (CHART / "values.yaml").read_text()
        self.values = yaml.safe_load(self.text)
        self.documented = dict(documented(self.text.splitlines()))

    def test_every_value_has_a_default_and_says_what_it_is(self):
        for name in leaves(SCHEMA):
            # Helm's own; and what is Kubernetes' is described as a whole.
            if name == "global" or name.partition(".")[0] in ("startupProbe", "livenessProbe", "readinessProbe", "resources"):
                continue
            with self.subTest(value=name):
                self.assertIn(name, self.documented, "has no `# --` comment")
                value_of(self.values, name)

    def test_the_schema_is_closed(self):
        def check(schema, path):
            # The service checks its configuration; and `global` is that of all charts.
            if "properties" in schema and path[:1] not in (["config"], ["global"]):
                self.assertIs(schema.get("additionalProperties"), False, ".".join(path))
            for name, inner in schema.get("properties", {}).items():
                check(inner, [*path, name])
            if isinstance(schema.get("items"), dict):
                check(schema["items"], [*path, "[]"])

        check(SCHEMA, [])

    def test_the_readme_lists_every_value(self):
        found = rows(self.values, self.documented)
        table = "\n".join(["| value | default | what it is |", "|---|---|---|", *found])
        path = CHART / "README.md"
        readme = path.read_text()
        before, _, rest = readme.partition("<!-- values -->\n")
        after = rest.partition("<!-- end of values -->")[2]
        expected = f"{before}<!-- values -->\n{table}\n<!-- end of values -->{after}"
        if UPDATE:
            path.write_text(expected)
        self.assertEqual(path.read_text(), expected, "if that is meant: UPDATE=1 make chart-test")

    def test_what_makes_no_sense_is_refused(self):
        for case in REFUSED:
            with self.subTest(case["set"]):
                sets = [word for value in case["set"] for word in ("--set-json", value)]
                skip = ["--skip-schema-validation"] if case.get("skip_schema") else []
                version = case.get("kubernetes", "1.31.0")
                result = helm("template", "ids", CHART, "--kube-version", version, *sets, *skip)
                self.assertNotEqual(result.returncode, 0, "it was taken")
                self.assertIn(case["says"], result.stderr)

    def test_null_is_taken_or_refused_in_words(self):
        names = [
            name if inner is None else f"{name}.{inner}"
            for name, value in self.values.items()
            for inner in (None, *(value if isinstance(value, dict) else ()))
        ]

        def rendered(name):
            return helm("template", "ids", CHART, "--kube-version", "1.31.0", *ALL, "--set", f"{name}=null")

        seen = set()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for name, result in zip(names, pool.map(rendered, names)):
                with self.subTest(value=name):
                    if result.returncode == 0:
                        for manifest in manifests(result.stdout):
                            key = json.dumps(manifest, sort_keys=True)
                            if key not in seen:
                                validate(manifest, KUBERNETES[0])
                            seen.add(key)
                    else:
                        self.assertRegex(result.stderr, r"missing propert|execution error at .*: [a-z]+\S* .*")
                        self.assertNotIn("nil pointer", result.stderr)
        self.assertGreater(len(names), 100)

    def test_every_refusal_is_tested(self):
        said = " ".join(case["says"] for case in REFUSED) + (HERE / "live_test.py").read_text()
        for template in filter(pathlib.Path.is_file, (CHART / "templates").rglob("*")):
            for message in re.findall(r'\bfail (?:\(printf )?"((?:[^"\\]|\\.)*)"', template.read_text()):
                # Up to the first value that is put in, a message is the same for every case.
                fixed = max(re.split(r"%[dqsv]", message.replace('\\"', '"')), key=len).strip(" =:()")
                with self.subTest(message=message):
                    self.assertIn(fixed, said)

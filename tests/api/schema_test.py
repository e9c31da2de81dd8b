"""The JSON schema of the configuration, by a validator of its own: what it takes, and what it refuses."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import tomllib
import unittest

import jsonschema_rs

RAINDROP = os.environ["RAINDROP"]
ROOT = pathlib.Path(__file__).resolve().parents[2]

# What the schema refuses, and loading does, too.
BAD = [
    "layout.preset = 'no-such'",
    "layout = { worker_bits = 17 }",
    "layout = { worker_bits = 2.5 }",
    "layout = { time_unit = 6 }",
    "lease = { ttl = 90 }",
    "lease = { ttl = 'soon' }",
    "leese = { ttl = '90s' }",
    "lease = { tll = '90s' }",
    "log = { level = 'loud' }",
    "http = { max_batch = 0 }",
    "http = { max_batch = 100001 }",
    "http = { console = 'yes' }",
    "http = { max_unsent = 64 }",
    "http = { tls = { cert = 'a.pem' } }",
    "codes = [{ name = 'order' }]",
    "code = [{ namespace = 'default' }]",
    "code = [{ name = 'order', encoding = 'base1' }]",
    "code = [{ name = 'order', no_such = 1 }]",
    "namespaces = { default = { mode = 'segment' } }",
    "namespaces = { Web = { mode = 'segment' } }",
    "namespaces = { web = { store = { max_connections = 3 } } }",
    "namespaces = { web = { lease = { tll = '90s' } } }",
    "layouts = { old = { epoch = '2020-01-01T00:00:00Z' } }",
    "layouts = { Old = { layout = 'time:41@1ms,worker:10,sequence:12' } }",
]


def taken(validator, text):
    """Why the schema refuses a file of this text, or nothing."""
    # An editor sees TOML's own instants as texts.
    document = json.loads(json.dumps(tomllib.loads(text), default=str))
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(document)]


def blocks():
    """The configurations in the documentation, with the page of each."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"(?ms)^ *```toml\n(.*?)^ *```$", page.read_text()):
            # A line of Cargo.toml.
            if not block.startswith("raindrop-keeper = {"):
                yield str(page.relative_to(ROOT)), block


def uncommented(text):
    """The file of the packages with each default that it shows as a comment."""
    return re.sub(r"(?m)^#(\w+ = )", r"\1", text)


def of_environment(text):
    """`.env.example` as a file: its variables with a value, numbers and truth values without quotes."""
    document = {}
    for name, value in re.findall(r"(?m)^#RAINDROP__(\w+)=(.+)$", text):
        *path, last = name.lower().split("__")
        table = document
        for part in path:
            table = table.setdefault(part, {})
        is_bare = value.isdigit() or value in ("true", "false")
        table[last] = json.loads(value) if is_bare else value
    return document


class Schema(unittest.TestCase):
    def setUp(self):
        printed = subprocess.run([RAINDROP, "config", "--schema"], check=True, capture_output=True)
        self.schema = json.loads(printed.stdout)
        jsonschema_rs.meta.validate(self.schema)
        self.validator = jsonschema_rs.Draft7Validator(self.schema)

    def test_it_takes_every_configuration_of_the_project(self):
        files = [
            *(ROOT / "docs" / "examples").glob("*.toml"),
            *(ROOT / "tests" / "api").glob("raindrop.toml"),
            *(ROOT / "deploy").rglob("raindrop.toml"),
        ]
        texts = [(str(path.relative_to(ROOT)), path.read_text()) for path in files]
        packaged = (ROOT / "deploy" / "packages" / "raindrop.toml").read_text()
        texts += [("every default", uncommented(packaged)), *blocks()]
        for name, text in texts:
            with self.subTest(name):
                self.assertEqual(taken(self.validator, text), [])
        self.assertGreater(len(files), 20)
        self.assertGreater(len(texts), len(files) + 10)

    def test_it_takes_every_default_of_the_environment(self):
        document = of_environment((ROOT / ".env.example").read_text())
        self.assertEqual(document["http"]["max_batch"], 10000)
        self.assertEqual(list(self.validator.iter_errors(document)), [])

    def test_it_refuses_what_loading_refuses(self):
        for text in BAD:
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                self.assertNotEqual(taken(self.validator, text), [], "the schema takes it")
                path = pathlib.Path(folder, "raindrop.toml")
                path.write_text(text)
                environment = {"RAINDROP_CONFIG": str(path)}
                loaded = subprocess.run([RAINDROP, "config"], env=environment, cwd=folder, capture_output=True)
                self.assertEqual(loaded.returncode, 2, loaded.stdout)


if __name__ == "__main__":
    unittest.main()

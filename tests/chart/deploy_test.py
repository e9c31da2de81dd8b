"""compose.yaml and deploy/: what they name is there, and a real Prometheus works with it."""

import copy
import json
import pathlib
import re
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from chart import CHART, HERE
from rules_test import expressions, rules
from service import free_port, served

ROOT = HERE.parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PROMETHEUS = yaml.safe_load((ROOT / "deploy" / "prometheus.yaml").read_text())


def ask(url, path, **query):
    with urllib.request.urlopen(f"{url}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def eventually(what, condition):
    """Waits with patience: only what never comes is a failure."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"never: {what}")


class Deploy(unittest.TestCase):
    def test_every_mounted_file_is_there(self):
        mounts = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", [])]
        files = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
        self.assertGreater(len(files), 4)
        for file in files:
            self.assertTrue((ROOT / file).is_file(), file)

    def test_prometheus_scrapes_the_nodes(self):
        nodes = {
            name for name, service in COMPOSE["services"].items() if service["image"].startswith("raindrop:")
        }
        (targets,) = (config["targets"] for config in PROMETHEUS["scrape_configs"][0]["static_configs"])
        self.assertEqual({target.split(":")[0] for target in targets}, nodes)

    def test_images_are_of_the_same_version(self):
        version = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual(chart["appVersion"], version)
        self.assertIn(f"ARG VERSION={version}\n", (ROOT / "Dockerfile").read_text())
        self.assertEqual(COMPOSE["services"]["raindrop-1"]["image"], f"raindrop:{version}")

    def test_a_real_prometheus_scrapes_a_pair_and_evaluates_every_rule_and_panel(self):
        with tempfile.TemporaryDirectory() as folder, served() as first, served() as second:
            config = {
                **copy.deepcopy(PROMETHEUS),
                "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                "rule_files": [str(CHART / "files" / "alerts.yaml")],
            }
            targets = [url.removeprefix("http://") for url in (first, second)]
            config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
            file = pathlib.Path(folder, "prometheus.yaml")
            file.write_text(yaml.safe_dump(config))
            address = f"127.0.0.1:{free_port()}"
            url = f"http://{address}"
            arguments = [
                f"--config.file={file}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={address}",
            ]
            with open(f"{folder}/log", "w") as log:
                prometheus = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log)
            try:
                for node in (first, second):
                    urllib.request.urlopen(f"{node}/ids/order?n=5", timeout=10).close()
                issued = {"query": "sum(raindrop_ids_issued_total) == 10"}
                eventually("both are scraped", lambda: ask(url, "/api/v1/query", **issued)["result"])
                eventually("every rule is evaluated", lambda: self.are_evaluated(ask(url, "/api/v1/rules")))
                # Rates need more samples than a test waits for: they have to be possible only.
                for expression in expressions():
                    with self.subTest(expression=expression):
                        self.assertIn("result", ask(url, "/api/v1/query", query=expression))
                for expression in [e for e in expressions() if not re.search(r"rate\(|increase\(", e)]:
                    with self.subTest(expression=expression):
                        self.assertTrue(
                            ask(url, "/api/v1/query", query=expression)["result"], "it shows nothing"
                        )
                firing = [
                    alert for alert in ask(url, "/api/v1/alerts")["alerts"] if alert["state"] == "firing"
                ]
                self.assertEqual(firing, [])
            finally:
                prometheus.terminate()
                prometheus.wait(60)

    def are_evaluated(self, data):
        found = [rule for group in data["groups"] for rule in group["rules"]]
        self.assertEqual(len(found), len(rules()))
        for rule in found:
            self.assertNotEqual(rule["health"], "err", rule)
        return all(rule["health"] == "ok" for rule in found)

"""The chart as a release publishes it: with the addresses of its repository, and a README that is true there."""

import os
import pathlib
import re
import tarfile
import tempfile
import unittest

import yaml

from chart import CHART, HERE, UPDATE, helm, manifests, run, template
from values_test import documented, rows

ROOT = HERE.parent.parent
PAGES = "https://github.com/Some/Rain-Drop/blob/"


def images(text):
    """The images of every container: those of the service first."""
    pods = [
        manifest["spec"].get("template", manifest)["spec"]
        for manifest in manifests(text)
        if manifest["kind"] in ("Deployment", "Pod")
    ]
    return {container["image"] for pod in pods for container in pod["containers"]}


class Publish(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="raindrop-chart-")))
        cls.chart = cls.package(cls.version)
        cls.about = yaml.safe_load((cls.chart / "Chart.yaml").read_text())

    @classmethod
    def package(cls, version):
        """Packages the chart and unpacks it; its folder."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=cls.folder))
        arguments = ("Some/Rain-Drop", version, str(folder))
        result = run(CHART.parent / "package.sh", *arguments, env={"HELM": os.environ["HELM"]})
        assert result.returncode == 0, result.stdout + result.stderr
        (file,) = folder.glob("raindrop-*.tgz")
        with tarfile.open(file) as packed:
            packed.extractall(folder, filter="data")
        return folder / "raindrop"

    def test_it_names_the_image_of_the_release(self):
        result = helm("template", "ids", self.chart, "--kube-version", "1.31.0")
        self.assertIn(f"ghcr.io/some/rain-drop:{self.version}", images(result.stdout))
        listed = {image["image"] for image in yaml.safe_load(self.about["annotations"]["artifacthub.io/images"])}
        self.assertEqual(listed, images(result.stdout))

    def test_the_images_of_the_tree_are_listed(self):
        about = yaml.safe_load((CHART / "Chart.yaml").read_text())
        listed = {image["image"] for image in yaml.safe_load(about["annotations"]["artifacthub.io/images"])}
        self.assertEqual(listed, images(template()))

    def test_no_placeholder_is_left(self):
        for path in filter(pathlib.Path.is_file, self.chart.rglob("*")):
            with self.subTest(path=path.name):
                self.assertNotIn("git.example.org", path.read_text())
        self.assertEqual(self.about["home"], "https://github.com/Some/Rain-Drop")
        raw = f"https://raw.githubusercontent.com/Some/Rain-Drop/v{self.version}/"
        self.assertTrue((ROOT / self.about["icon"].removeprefix(raw)).is_file())

    def test_every_page_is_there(self):
        found = set()
        for path in filter(pathlib.Path.is_file, self.chart.rglob("*")):
            found |= set(re.findall(rf"{PAGES}[\w./-]*\w", path.read_text()))
        self.assertGreater(len(found), 4)
        for page in found:
            with self.subTest(page=page):
                self.assertTrue((ROOT / page.removeprefix(f"{PAGES}v{self.version}/")).is_file())

    @unittest.skipIf(UPDATE, "values_test.py writes the table later")
    def test_the_readme_is_true(self):
        readme = (self.chart / "README.md").read_text()
        self.assertIn(f"helm install raindrop oci://ghcr.io/some/rain-drop/charts/raindrop --version {self.version}\n", readme)
        self.assertNotIn("registry of yours", readme)
        links = re.findall(r"\]\(([^)]*)\)", readme)
        self.assertEqual([link for link in links if not link.startswith((PAGES, "#"))], [])
        text = (self.chart / "values.yaml").read_text()
        for row in rows(yaml.safe_load(text), dict(documented(text.splitlines()))):
            # Names of pages are addresses in the README.
            self.assertIn(re.sub(r"(?<=[ (])docs/\w+\.md", rf"{PAGES}v{self.version}/\g<0>", row), readme)

    def test_the_annotations_are_those_of_artifact_hub(self):
        annotations = self.about["annotations"]
        self.assertEqual(annotations["artifacthub.io/license"], "Apache-2.0")
        self.assertIn(self.about["name"], annotations["artifacthub.io/alternativeName"])
        for change in yaml.safe_load(annotations["artifacthub.io/changes"]):
            self.assertIn(change["kind"], ("added", "changed", "deprecated", "removed", "fixed", "security"))
            self.assertGreater(len(change["description"]), 5)
        for link in yaml.safe_load(annotations["artifacthub.io/links"]):
            self.assertEqual(set(link), {"name", "url"})
        self.assertNotIn("artifacthub.io/prerelease", annotations)
        before = yaml.safe_load((self.package("9.0.0-rc.1") / "Chart.yaml").read_text())
        self.assertEqual(before["annotations"]["artifacthub.io/prerelease"], "true")

    def test_it_passes_the_lint(self):
        result = helm("lint", "--strict", self.chart)
        self.assertEqual(result.returncode, 0, result.stdout)

"""deploy/kubernetes: the manifests for `kubectl apply -k` are what the chart renders."""

import os
import pathlib
import re
import tempfile
import unittest

import yaml

from chart import CHART, HERE, UPDATE, helm, manifests, run, sets, tidy
from control_plane import collection, control_plane

FOLDER = HERE.parent.parent / "deploy" / "kubernetes"
# Each folder with the values that it stands for.
FOLDERS = {
    FOLDER: (),
    FOLDER / "database": ("store.existingSecret=raindrop-store", "config.store.tls=verify"),
}
# What only Helm needs, and the checksum of a ConfigMap whose name has one.
HELMS = r"(?m)^# Source: .*\n|^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ +annotations:\n +checksum/config: .*\n"
HEAD = "# Rendered from helm/raindrop: `UPDATE=1 make chart-test` writes this file again.\n"


def rendered(values):
    options = ("--namespace", "raindrop", "--no-hooks", "--kube-version", "1.31.0", *sets(*values))
    result = helm("template", "raindrop", CHART, *options)
    assert result.returncode == 0, result.stderr
    return tidy(result.stdout)


def files(values):
    """What a folder holds: {name: text}."""
    parts = [re.sub(HELMS, "", part) for part in rendered(values).split("---\n") if part.strip()]
    (config,) = (part for part in parts if yaml.safe_load(part)["kind"] == "ConfigMap")
    objects = "---\n".join(part for part in parts if part != config)
    return {"raindrop.yaml": HEAD + objects, "raindrop.toml": yaml.safe_load(config)["data"]["raindrop.toml"]}


def built(folder):
    """What `kubectl apply -k` of a folder applies."""
    result = run(os.environ["KUSTOMIZE"], "build", str(folder))
    assert result.returncode == 0, result.stderr
    return manifests(result.stdout)


def named(found):
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def deployment(found):
    (manifest,) = (manifest for manifest in found if manifest["kind"] == "Deployment")
    return manifest


class Plain(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        # Before any test builds them.
        for folder, values in FOLDERS.items() if UPDATE else ():
            for name, text in files(values).items():
                (folder / name).write_text(text)

    def test_the_files_are_as_the_chart_renders_them(self):
        for folder, values in FOLDERS.items():
            for name, text in files(values).items():
                with self.subTest(folder=folder.name, file=name):
                    self.assertEqual((folder / name).read_text(), text, "if that is meant: UPDATE=1 make chart-test")

    def test_kustomize_builds_what_the_chart_renders(self):
        for folder, values in FOLDERS.items():
            with self.subTest(folder=folder.name):
                expected, found = (named(manifests(re.sub(HELMS, "", rendered(values)))), named(built(folder)))
                # With its hash, here and in the Deployment.
                (name,) = (name for kind, name in found if kind == "ConfigMap")
                self.assertRegex(name, "^raindrop-[a-z0-9]{10}$")
                self.assertEqual(found["ConfigMap", name]["data"], expected["ConfigMap", "raindrop"]["data"])
                volumes = deployment(found.values())["spec"]["template"]["spec"]["volumes"]
                self.assertEqual(volumes[0]["configMap"].pop("name"), name)
                volumes[0]["configMap"]["name"] = "raindrop"
                for manifests_of in (found, expected):
                    for key in [key for key in manifests_of if key[0] == "ConfigMap"]:
                        del manifests_of[key]
                self.assertEqual(found, expected)

    def test_no_folder_has_a_secret(self):
        for folder in FOLDERS:
            self.assertNotIn("Secret", [manifest["kind"] for manifest in built(folder)])

    def test_the_overlay_of_the_documentation_changes_all_that_it_names(self):
        """The image, the namespace, the configuration and the number of nodes."""
        page = (HERE.parent.parent / "docs" / "kubernetes" / "plain.md").read_text()
        text = re.search(r"```yaml\n(# kustomization\.yaml\n.*?)```", page, re.DOTALL)[1]
        for base in FOLDERS:
            with self.subTest(base=base.name), tempfile.TemporaryDirectory() as folder:
                overlay = yaml.safe_load(text)
                overlay["resources"] = [os.path.relpath(base, pathlib.Path(folder).resolve())]
                pathlib.Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(overlay))
                pathlib.Path(folder, "raindrop.toml").write_text("log.format = 'text'\n")
                found = built(folder)
                self.assertEqual({manifest["metadata"]["namespace"] for manifest in found}, {"ids"})
                for manifest in found:
                    for subject in manifest.get("subjects", []):
                        self.assertEqual(subject["namespace"], "ids")
                spec = deployment(found)["spec"]
                self.assertEqual(spec["replicas"], 3)
                pod = spec["template"]["spec"]
                images = {container["image"] for container in pod["initContainers"] + pod["containers"]}
                self.assertEqual(images, {"registry.example.org/raindrop:0.1.0"})
                (config,) = (manifest for manifest in found if manifest["kind"] == "ConfigMap")
                self.assertEqual(config["data"], {"raindrop.toml": "log.format = 'text'\n"})
                self.assertEqual(pod["volumes"][0]["configMap"]["name"], config["metadata"]["name"])

    def test_an_api_server_takes_them(self):
        servers = control_plane()
        options = {"dryRun": "All", "fieldValidation": "Strict"}
        with servers.namespace("raindrop"):
            for folder in FOLDERS:
                for manifest in built(folder):
                    with self.subTest(folder=folder.name, kind=manifest["kind"]):
                        servers.api.post(collection(servers.api, manifest), manifest, **options)

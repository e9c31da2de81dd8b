"""What the tests of the chart share: rendering it, and the golden files."""

import difflib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import yaml

# The parser in C, ten times as fast as the one in Python; the wheel of PyYAML has it.
LOADER = yaml.CSafeLoader
HERE = pathlib.Path(__file__).parent
CHART = HERE.parent.parent / "helm" / "raindrop"
CASES = sorted((HERE / "cases").glob("*.yaml"))
KUBERNETES = ["1.27.0", "1.37.0"]
UPDATE = bool(os.environ.get("UPDATE"))

_home = tempfile.TemporaryDirectory(prefix="raindrop-chart-")
_environment = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "RAINDROP_"))},
    **{name: _home.name for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")},
    "KUBECONFIG": os.devnull,
}


def run(*command, env=None, **kwargs):
    """Runs a command to its end; its output is text."""
    env = {**_environment, **(env or {})}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, **kwargs)


def helm(*arguments):
    return run(os.environ["HELM"], *map(str, arguments))


def render(*arguments):
    """The manifests, as text; fails with what helm says."""
    result = helm("template", "ids", CHART, "--namespace", "apps", "--kube-version", "1.31.0", *arguments)
    if result.returncode != 0:
        raise AssertionError(f"helm template {arguments}: {result.stderr}")
    return tidy(result.stdout)


def tidy(text):
    """Without the empty lines at the end of manifests, which Helm 4 keeps and Helm 3 does not."""
    return re.sub(r"\n+(?=---\n|\Z)", "\n", text)


# For what depends on the values alone.
template = functools.cache(render)


def refused(*arguments):
    """What helm says to values that the chart does not take."""
    result = helm("template", "ids", CHART, "--namespace", "apps", "--kube-version", "1.31.0", *arguments)
    assert result.returncode != 0, f"helm template {arguments}: it was taken"
    return result.stderr


def sets(*values):
    """Options that set values such as `kind=StatefulSet`."""
    return [word for value in values for word in ("--set", value)]


def of_case(path):
    return template("--values", str(path))


def without_files(text):
    """Leaves out what is a file of its own: the dashboard, the rules and the test's script."""
    text = re.sub(
        r"(?m)^  raindrop\.json: \|\n(?:    .*\n)+", "  raindrop.json: files/dashboard.json\n", text
    )
    text = re.sub(r"(?m)^spec:\n  groups:\n(?:    .*\n)+", "spec:\n  groups: files/alerts.yaml\n", text)
    return re.sub(r"(?m)^( +)- \|\n(?:\1  .*\n)+", r"\1- files/test.sh\n", text)


def notes(*arguments):
    """What an installation says at its end; helm shows that to a cluster only, so a template does."""
    with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
        chart = pathlib.Path(shutil.copytree(CHART, f"{folder}/raindrop"))
        (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
        shown = 'notes: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}\n'
        (chart / "templates" / "notes.yaml").write_text(shown)
        result = helm(
            "template",
            "ids",
            chart,
            "--namespace",
            "apps",
            "--kube-version",
            "1.31.0",
            "--show-only",
            "templates/notes.yaml",
            *arguments,
        )
        if result.returncode != 0:
            raise AssertionError(f"notes {arguments}: {result.stderr}")
        return yaml.load(result.stdout, LOADER)["notes"]


def manifests(text):
    return [manifest for manifest in yaml.load_all(text, LOADER) if manifest]


def only(text, kind, name=None):
    """The one manifest of a kind."""
    found = [
        manifest
        for manifest in manifests(text)
        if manifest["kind"] == kind and name in (None, manifest["metadata"]["name"])
    ]
    assert len(found) == 1, f"{len(found)} of {kind} {name or ''}"
    return found[0]


def assert_golden(test, name, text):
    """Compares with tests/chart/golden, or writes there with UPDATE=1."""
    path = HERE / "golden" / name
    if UPDATE:
        path.write_text(text)
    kept = path.read_text() if path.exists() else ""
    if kept != text:
        difference = "".join(
            difflib.unified_diff(kept.splitlines(True), text.splitlines(True), "kept", "rendered")
        )
        test.fail(
            f"{path.relative_to(HERE)} differs; if that is meant: UPDATE=1 make chart-test\n{difference}"
        )

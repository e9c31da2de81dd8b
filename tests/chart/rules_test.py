"""Alerts and dashboard: right PromQL, of metrics that the service has; every alert fires."""

import json
import re
import tempfile
import tomllib
import unittest
import urllib.error

import yaml

from chart import CHART, HERE, of_case, only, run, sets, template
from service import ask, served

ALERTS = CHART / "files" / "alerts.yaml"
TESTS = HERE / "alerts.test.yaml"
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())


def rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def filled(expression, **selected):
    """An expression with Grafana's variables filled in: everything, unless something is selected."""
    expression = expression.replace("$__rate_interval", "1m")
    return re.sub(r"\$(\w+)", lambda variable: selected.get(variable[1], ".*"), expression)


def expressions():
    """Every expression of the dashboard, of everything that there is."""
    for panel in panels():
        for target in panel["targets"]:
            yield filled(target["expr"])


# An outage of the store, in seconds since the first scrape.
BEGINS, ENDS = 600, 2400


def of_leases(at):
    """What a node shows whose store is away: its lease is renewed every 30 s, and reaches 5 min."""
    is_away = BEGINS <= at < ENDS
    renewed = (BEGINS if is_away else at) // 30 * 30
    return {"raindrop_lease_valid_until_timestamp_seconds": renewed + 300}


def of_segments(at, rest, falls_by):
    """What a node shows whose busy code lasts for three minutes, beside the rest of its numbers, which no
    request gets: those of an idle code, or fewer than a batch asks for."""
    is_away = BEGINS <= at < ENDS
    busy = max(0, 180 - (at - BEGINS)) if is_away else 180
    served = at if at < BEGINS + 180 else BEGINS + 180 if is_away else at - (ENDS - BEGINS - 180)
    return {
        "raindrop_segment_remaining": rest + busy * falls_by,
        "raindrop_segment_store_failing": int(is_away),
        "raindrop_issuing": int(busy > 0),
        "raindrop_ids_issued_total": served * falls_by,
    }


def is_one(shown, every, expression, at):
    """Whether an expression is 1 at a time, where Prometheus scrapes two such nodes: promtool's result."""
    inputs = []
    times = range(0, ENDS + 1200, every)
    for node in "ab":
        of = f'job="raindrop", instance="{node}", id_namespace="default"'
        of_process = {"raindrop_build_info": 1, "process_start_time_seconds": -3600}
        shows = [{**shown(time), **of_process} for time in times]
        for metric in shows[0]:
            series = " ".join(str(show[metric]) for show in shows)
            inputs.append({"series": metric + "{" + of + "}", "values": series})
    expected = {"expr": expression, "eval_time": f"{at}s", "exp_samples": [{"labels": "{}", "value": 1}]}
    case = {"interval": f"{every}s", "input_series": inputs, "promql_expr_test": [expected]}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": [case]}, file)
        file.flush()
        return run("promtool", "test", "rules", file.name)


class Rules(unittest.TestCase):
    def test_alerts_fire_where_they_should(self):
        result = run("promtool", "test", "rules", str(TESTS))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_an_outage_keeps_a_critical_alert_from_its_last_minutes_to_its_end(self):
        kinds = {
            "leases": of_leases,
            "an idle code has numbers": lambda at: of_segments(at, 1000, 10),
            "batches are larger than the rest": lambda at: of_segments(at, 90, 100),
            "nothing is left": lambda at: of_segments(at, 0, 100),
        }
        # 1 if at least one alert fires at each of the instants.
        firing_for = "min_over_time((clamp_max(count(ALERTS{%s}), 1) or vector(0))[%ds:15s])"
        critical = 'alertstate="firing", severity="critical"'
        for kind, shown in kinds.items():
            # The lease reaches 5 min, and a busy code 3 min; a scrape may come a whole interval late.
            lasts = 300 if shown is of_leases else 180
            for every in (15, 30, 60):
                with self.subTest(kind=kind, every=every):
                    from_last_seconds = ENDS - BEGINS - lasts - every - 45
                    result = is_one(shown, every, firing_for % (critical, from_last_seconds), ENDS - 15)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    # Before it, and from soon after it, none fires.
                    none = '(count(ALERTS{alertstate="firing"}) or vector(0)) + 1'
                    for quiet in (BEGINS - 15, ENDS + every + 90):
                        result = is_one(shown, every, none, quiet)
                        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_one_failed_request_of_the_store_is_no_outage(self):
        def shown(at):
            return {**of_segments(0, 1000, 10), "raindrop_segment_store_failing": int(at == 600)}

        for every in (15, 30, 60):
            with self.subTest(every=every):
                ever = '(max_over_time(count(ALERTS{alertstate="firing"})[30m:15s]) or vector(0)) + 1'
                result = is_one(shown, every, ever, 1800)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_alert_is_seen_firing_and_silent(self):
        checks = [
            check for test in yaml.safe_load(TESTS.read_text())["tests"] for check in test["alert_rule_test"]
        ]
        for name in {rule["alert"] for rule in rules() if "alert" in rule}:
            with self.subTest(alert=name):
                own = [bool(check["exp_alerts"]) for check in checks if check["alertname"] == name]
                self.assertIn(True, own)
                self.assertIn(False, own)

    def test_every_alert_has_its_page_and_every_page_its_alert(self):
        root = HERE.parent.parent
        repository = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
        alerts = [rule for rule in rules() if "alert" in rule]
        for rule in alerts:
            with self.subTest(alert=rule["alert"]):
                page = f"{repository}/docs/alerts/{rule['alert']}.md"
                self.assertEqual(rule["annotations"]["runbook_url"], page)
        pages = list((root / "docs" / "alerts").glob("*"))
        self.assertEqual({page.name for page in pages}, {f"{rule['alert']}.md" for rule in alerts})
        rows = re.findall(r"(?m)^\| \[`(\w+)`\]\(alerts/\1\.md\) \|", (root / "docs" / "alerts.md").read_text())
        self.assertEqual(sorted(rows), sorted({rule["alert"] for rule in alerts}))
        for page in pages:
            with self.subTest(page=page.name):
                headings = re.findall(r"(?m)^#+ .*", page.read_text())
                parts = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]
                self.assertEqual(headings, [f"# {page.stem}", *parts])

    def test_the_chart_carries_the_same_rules(self):
        rule = only(of_case(HERE / "cases" / "monitoring.yaml"), "PrometheusRule")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(rule["spec"], file)
            file.flush()
            result = run("promtool", "check", "rules", file.name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rendered = [rule for group in rule["spec"]["groups"] for rule in group["rules"]]
        expected = [rule for rule in rules() if rule.get("alert") != "RaindropTokenExpires"]
        for alert in expected:
            if "alert" in alert:
                alert["labels"]["team"] = "platform"
                page = f"https://wiki.example.org/raindrop/alerts/{alert['alert']}.html"
                alert["annotations"]["runbook_url"] = page
            if alert.get("alert") == "RaindropAbsent":
                # Of this release, because the chart's monitor names its job.
                alert["expr"] = 'absent(raindrop_build_info{job="ids", namespace="apps"})'
        self.assertEqual(rendered, expected)

    def test_without_a_monitor_of_the_chart_any_node_counts(self):
        rule = only(template(*sets("prometheusRule.enabled=true")), "PrometheusRule")
        rendered = [rule for group in rule["spec"]["groups"] for rule in group["rules"]]
        self.assertEqual(rendered, rules())

    def test_the_dashboard_is_promql(self):
        checked = [{"record": f"panel:{index}", "expr": text} for index, text in enumerate(expressions())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": checked}]}, file)
            file.flush()
            result = run("promtool", "check", "rules", file.name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_dashboard_counts_nodes_and_never_shows_a_lease_below_zero(self):
        # a: two namespaces and segments; b: without a lease in one; c: started without its store.
        leases = [("a", "default", 900), ("a", "web", 900), ("b", "default", 900), ("b", "web", 0), ("c", "default", 0)]
        of = 'job="raindrop", instance="{}", namespace="{}"'
        series = [
            ("raindrop_lease_valid_until_timestamp_seconds{%s}" % of.format(node, name), until)
            for node, name, until in leases
        ]
        for metric, value in [("raindrop_segment_remaining", 9), ("raindrop_codes", 1)]:
            series.append(("%s{%s}" % (metric, of.format("a", "plain")), value))
            # No code yet.
            series.append(("%s{%s}" % (metric, of.format("a", "empty")), 0))
        titles = {panel["title"]: panel["targets"][0]["expr"] for panel in panels() if panel["type"] == "stat"}
        checks = [
            ("Nodes that issue", {}, 1),
            ("Nodes that issue", {"namespace": "default"}, 2),
            ("Shortest lease", {}, 0),
            ("Shortest lease", {"instance": "a"}, 300),
        ]
        tests = [
            {
                "expr": filled(titles[title], **selected),
                "eval_time": "10m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for title, selected, value in checks
        ]
        inputs = [{"series": name, "values": f"{value}x20"} for name, value in series]
        case = {"interval": "1m", "input_series": inputs, "promql_expr_test": tests}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"rule_files": [], "tests": [case]}, file)
            file.flush()
            result = run("promtool", "test", "rules", file.name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_dashboard_is_laid_out_without_overlap(self):
        taken = set()
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
        ids = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertTrue(all(panel["description"] for panel in panels()))

    def test_the_service_has_every_metric_that_is_asked_for(self):
        text = ""
        # Some metrics are those of TLS and tokens.
        for secured in (False, True):
            with served(secured=secured) as url:
                for path in ("/id/order", "/ids/order?n=2", "/nothing"):
                    try:
                        ask(url, path).close()
                    except urllib.error.HTTPError as error:
                        error.close()
                with ask(url, "/metrics") as answer:
                    metrics = answer.read().decode()
            result = run("promtool", "check", "metrics", input=metrics)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            text += metrics
        known = set(re.findall(r"(?m)^([a-z_]+)(?:\{| )", text))
        asked = " ".join([*expressions(), *(rule["expr"] for rule in rules())])
        names = set(re.findall(r"(?<![:\w])(?:raindrop|process)_[a-z_]+", asked))
        self.assertGreater(len(names), 15)
        self.assertLessEqual(names, known)
        # Label values that alerts select are there from the start.
        for metric, label, values in re.findall(r'(raindrop_[a-z_]+)\{(\w+)=~?"([a-z_|]+)"', asked):
            for value in values.split("|"):
                self.assertRegex(text, rf'{metric}\{{[^}}]*{label}="{value}"')

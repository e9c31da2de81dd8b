"""What a collector of OpenTelemetry gets of a running service."""

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

PATIENCE = 300
CALLER = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{CALLER}-{PARENT}-01"
PIPELINE = """yaml:
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {print: }
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [print]}}
"""
CONFIGURATION = """
[http]
listen = "127.0.0.1:%d"
[log]
format = "%s"
requests = "all"
[store]
url = "sqlite://raindrop.db"
[segment]
auto_create = true
[namespaces.numbers]
mode = "segment"
"""
FAILED = "spans cannot be sent and are dropped"
BACK = "spans are sent again"


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def until(what, found):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE} seconds")


def attributes(span):
    """The attributes of a span, as the collector's JSON has them: {"intValue": "200"}."""
    return {it["key"]: it["value"] for it in span["attributes"]}


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.collector_port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.collector_port}"

    def start(self, name, command, environment=None):
        with open(self.folder / f"{name}.out", "w") as out, open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=log, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()

    def start_collector(self):
        pipeline = PIPELINE % self.collector_port
        self.start("collector", [os.environ["COLLECTOR"], "--config", pipeline])
        until("the collector is ready", lambda: "Everything is ready" in self.log_of("collector"))

    def begin_service(self, variables, log_format="json"):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (self.folder / "raindrop.toml").write_text(CONFIGURATION % (port, log_format))
        command = [os.environ["RAINDROP"], "--config", "raindrop.toml", "serve"]
        return self.start("service", command, variables)

    def start_service(self, log_format="json", **variables):
        service = self.begin_service(variables, log_format)
        until("the service is ready", lambda: self.status("/readyz") == 200)
        return service

    def stop(self, service):
        """Stops the service, which sends its last spans before it ends."""
        service.terminate()
        self.assertEqual(service.wait(PATIENCE), 0, self.log_of("service"))

    def status(self, path, **headers):
        try:
            request = urllib.request.Request(self.url + path, headers=headers)
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def dropped(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        (value,) = [line.split()[1] for line in lines if line.startswith("raindrop_spans_dropped_total ")]
        return int(value)

    def spans(self):
        """The spans that the collector printed, each with the attributes of its resource."""
        for line in (self.folder / "collector.out").read_text().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                names = attributes(resource["resource"])
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        yield span | {"resource": names}

    def lines(self):
        return [json.loads(line) for line in self.log_of("service").splitlines()]

    def test_trace_of_a_caller_goes_on_to_the_store(self):
        self.start_collector()
        service = self.start_service(OTEL_EXPORTER_OTLP_ENDPOINT=self.endpoint)
        path = "/id/invoice?namespace=numbers"
        self.assertEqual(self.status(path, traceparent=SAMPLED), 200)
        self.assertEqual(self.status("/id/a%20b", traceparent=SAMPLED), 400)
        self.stop(service)

        spans = [span for span in self.spans() if span["traceId"] == CALLER]
        self.assertEqual({span["resource"]["service.name"]["stringValue"] for span in spans}, {"raindrop"})
        requests = [span for span in spans if span["name"] == "GET /id/{code}"]
        self.assertEqual([span["parentSpanId"] for span in requests], [PARENT, PARENT])
        found = attributes(requests[0])
        self.assertEqual(found["http.response.status_code"], {"intValue": "200"})
        self.assertEqual(found["http.request.method"], {"stringValue": "GET"})
        self.assertEqual(found["http.route"], {"stringValue": "/id/{code}"})
        refills = [span for span in spans if span["name"] == "refill"]
        self.assertEqual({span["parentSpanId"] for span in refills}, {requests[0]["spanId"]})
        self.assertEqual(attributes(refills[0])["code"], {"stringValue": "invoice"})
        reserved = [span["parentSpanId"] for span in spans if span["name"] == "store reserve"]
        self.assertLessEqual(set(reserved), {span["spanId"] for span in refills})
        self.assertTrue(reserved)

        lines = [line for line in self.lines() if line.get("code") == "invoice"]
        self.assertEqual([line["trace_id"] for line in lines], [CALLER])
        self.assertTrue(all("span" not in line and line["request_id"] for line in lines), lines)

    def test_every_span_is_below_what_caused_it(self):
        self.start_collector()
        service = self.start_service(OTEL_EXPORTER_OTLP_ENDPOINT=self.endpoint)
        # Enough that blocks are reserved before the one in use ends, while no claim waits for them.
        for _ in range(30):
            self.assertEqual(self.status("/ids/invoice?namespace=numbers&n=100"), 200)
        self.assertEqual(self.status("/id/order"), 200)
        self.stop(service)

        spans = {span["spanId"]: span for span in self.spans()}
        names = {span["name"] for span in spans.values()}
        self.assertLessEqual({"lease acquire", "store swap", "store read", "store reserve"}, names)

        def parents(prefix):
            """The spans above those of this name; "" for those that begin a trace."""
            for span in spans.values():
                if span["name"].startswith(prefix):
                    parent = span.get("parentSpanId", "")
                    yield spans[parent]["name"] if parent else ""

        self.assertEqual(set(parents("GET ")), {""})
        self.assertEqual(set(parents("lease ")), {""})
        refills = list(parents("refill"))
        # One that follows another because the demand rose meanwhile was asked for by no claim.
        self.assertLessEqual(set(refills), {"GET /ids/{code}", ""})
        self.assertIn("GET /ids/{code}", refills)
        self.assertGreater(len(refills), 1)
        calls = set(parents("store "))
        allowed = {"", "refill", "lease acquire", "lease renew", "lease rotate", "GET /ids/{code}"}
        self.assertLessEqual(calls, allowed)
        self.assertLessEqual({"refill", "lease acquire"}, calls)

    def test_caller_decides_whether_its_trace_is_sent(self):
        self.start_collector()
        service = self.start_service("text", OTEL_EXPORTER_OTLP_ENDPOINT=self.endpoint)
        self.assertEqual(self.status("/id/order", traceparent=f"00-{CALLER}-{PARENT}-00"), 200)
        self.stop(service)
        self.assertFalse([span for span in self.spans() if span["traceId"] == CALLER])
        (line,) = [line for line in self.log_of("service").splitlines() if 'code="order"' in line]
        self.assertTrue(line.endswith(f" trace_id={CALLER}"), line)

    def test_variables_name_the_service_and_choose_the_traces(self):
        self.start_collector()
        service = self.start_service(
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{self.endpoint}/v1/traces",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
            OTEL_SERVICE_NAME="ids",
            OTEL_TRACES_SAMPLER="parentbased_always_off",
        )
        self.assertEqual(self.status("/id/order"), 200)
        self.assertEqual(self.status("/id/order", traceparent=SAMPLED), 200)
        self.stop(service)
        spans = list(self.spans())
        self.assertEqual({span["traceId"] for span in spans}, {CALLER})
        resource = spans[0]["resource"]
        self.assertEqual(resource["service.name"], {"stringValue": "ids"})
        self.assertEqual(resource["deployment.environment.name"], {"stringValue": "test"})

    def test_without_an_endpoint_there_are_no_spans(self):
        service = self.start_service(OTEL_TRACES_EXPORTER="otlp")
        self.assertEqual(self.status("/id/order", traceparent=SAMPLED), 200)
        threads = (Path("/proc") / str(service.pid) / "task").iterdir()
        names = [(thread / "comm").read_text().strip() for thread in threads]
        self.assertFalse([name for name in names if "OpenTelemetry" in name], names)
        self.assertNotIn("trace_id", self.log_of("service"))
        self.stop(service)

    def test_collector_that_is_away_is_told_once_and_used_when_it_is_back(self):
        service = self.start_service(
            OTEL_EXPORTER_OTLP_ENDPOINT=self.endpoint, OTEL_BSP_SCHEDULE_DELAY="50"
        )
        for exports in range(3):
            before = self.dropped()
            self.assertEqual(self.status("/id/order"), 200)
            until(f"export {exports} failed", lambda: self.dropped() > before)
        (line,) = [line for line in self.lines() if line["message"] == FAILED]
        self.assertEqual(line["collector"], f"127.0.0.1:{self.collector_port}")
        self.assertIn("refused", line["error"])
        self.start_collector()
        until("spans are sent", lambda: self.status("/id/order") and BACK in self.log_of("service"))
        self.stop(service)
        self.assertTrue(list(self.spans()))

    def test_no_request_waits_for_a_collector_that_does_not_answer(self):
        listener = socket.create_server(("127.0.0.1", self.collector_port))
        self.addCleanup(listener.close)
        service = self.start_service(
            OTEL_EXPORTER_OTLP_ENDPOINT=self.endpoint,
            OTEL_BSP_MAX_QUEUE_SIZE="8",
            OTEL_BSP_SCHEDULE_DELAY="50",
            OTEL_EXPORTER_OTLP_TIMEOUT=str(2 * PATIENCE * 1000),
        )
        export, _ = listener.accept()
        self.addCleanup(export.close)
        # The export lasts until the end, so that spans can only be queued or dropped.
        for _ in range(100):
            self.assertEqual(self.status("/id/order"), 200)
        self.assertGreater(self.dropped(), 50)
        self.stop(service)

    def test_headers_are_sent_and_never_shown(self):
        got = []

        class Collector(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                got.append((self.path, dict(self.headers)))
                self.send_response(401)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", self.collector_port), Collector)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        service = self.start_service(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"{self.endpoint}/base",
            OTEL_EXPORTER_OTLP_HEADERS="api-key=se%20cret,x-team=ids",
            OTEL_BSP_SCHEDULE_DELAY="50",
        )
        until("the failure is logged", lambda: FAILED in self.log_of("service"))
        self.stop(service)
        path, headers = got[0]
        self.assertEqual(path, "/base/v1/traces")
        self.assertEqual((headers["api-key"], headers["x-team"]), ("se cret", "ids"))
        self.assertEqual(headers["content-type"], "application/x-protobuf")
        self.assertIn('"error":"status 401"', self.log_of("service"))
        self.assertNotIn("cret", self.log_of("service"))

    def test_values_that_cannot_be_used_end_the_start(self):
        for name, value, error in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318", "=https://collector:4318: must be http://"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:cret@a:4318", "=http://***@a:4318: must be http://"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "=grpc: must be http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "=http/json: must be http/protobuf"),
            ("OTEL_TRACES_SAMPLER", "xray", "=xray: must be always_on or"),
        ]:
            with self.subTest(name, value=value):
                service = self.begin_service({"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, name: value})
                self.assertEqual(service.wait(PATIENCE), 2)
                self.assertIn(name + error, self.log_of("service"))
                self.assertNotIn("cret", self.log_of("service"))


if __name__ == "__main__":
    unittest.main()

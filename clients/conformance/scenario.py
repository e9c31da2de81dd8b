"""Runs one scenario with one driver, and checks what holds for every scenario."""

import functools
import json
import operator
import pathlib
import time
import uuid

from driver import Driver, Enough, Hang
from ledger import not_issued
from service import CODES, TOKEN

# How much older than max_age an ID may be at the time before the request for it: the length of a tick and
# the time by which the service claims ahead of the clock. The load of the machine does not count, because
# the suite measures nothing after the client drew the ID.
AGE_TOLERANCE_MS = 50
# The same for `oldest_ms`, which a driver measures a moment after the ID was drawn.
OLDEST_TOLERANCE_MS = 800
# How much longer than its deadline a caller may wait on a busy machine.
WAIT_TOLERANCE_MS = 5000
# Two requests of a code may overlap for so long: the first one's end may be noticed late.
OVERLAP_S = 1.0
# The deadline of calls for which a scenario names none: long, because a busy machine is no fault.
DEADLINE_MS = 10_000
# How long a request may take from the client to the proxy, where too few have come.
ON_THE_WAY_S = 5.0
# `ids_per_request` leaves out this number of requests.
LEARNING_REQUESTS = 20
DRAWS = ("next", "text", "try", "uuid")
# How many UUIDs must differ in each of their random bits: two of them are equal in a bit by chance, all never.
ENOUGH_UUIDS = 200
VECTORS = json.loads(pathlib.Path(__file__).with_name("uuids.json").read_text(encoding="utf-8"))
KEYS = {
    "scenario": {"file", "name", "why", "options", "nodes", "token", "token_faults", "alone", "steps"},
    "ask": {"ask", "expect", "times", "until_ok_within", "as", "within", "scaled"},
    "await": {"await", "expect", "within"},
    "proxy": {"proxy"},
    "service": {"service"},
    "stop": {"stop", "ask", "expect"},
    "wait": {"wait"},
    "mark": {"mark"},
    "requests": {"requests"},
    "time_of": {"time_of"},
    "uuid_vectors": {"uuid_vectors"},
}


class Failed(Exception):
    """An expectation of a step is not met."""


def matches(value, wanted):
    """A list is a choice, `min` and `max` are bounds, a mapping concerns the fields that it names."""
    if isinstance(wanted, list):
        return any(matches(value, one) for one in wanted)
    if isinstance(wanted, dict) and wanted.keys() <= {"min", "max"}:
        number = isinstance(value, (int, float))
        return number and wanted.get("min", value) <= value <= wanted.get("max", value)
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(matches(value.get(name), one) for name, one in wanted.items())
    return value == wanted


def check_keys(scenario):
    """Refuses unknown keys, because a misspelt expectation would never fail."""
    unknown = scenario.keys() - KEYS["scenario"]
    for step in scenario["steps"]:
        kind = next((kind for kind in ("stop", *KEYS) if kind in step), None)
        unknown |= step.keys() - KEYS.get(kind, set())
    if unknown:
        raise ValueError(f"scenario {scenario['name']!r} has unknown keys: {sorted(unknown)}")


def random_bits(shift):
    """Returns a mask of a UUID's random bits: those that 12 bits before the variant, and 62 after it, leave."""
    free = 2 ** (74 - shift) - 1
    return free >> 62 << 64 | free & 2**62 - 1


class Scenario:
    def __init__(self, lane, language, data, ledger):
        self.lane = lane
        self.ledger = ledger
        self.language = language
        self.data = data
        self.options = {"deadline_ms": DEADLINE_MS, **data.get("options", {})}
        self.max_age_ms = self.options.get("max_age_ms", 10_000)
        self.failures = []
        # The IDs of each code, and the numbers of the requests that were started in the background.
        self.ids = {code: [] for code in CODES}
        self.started = {}
        self.last = {}
        # The requests that the step after this one allows.
        self.allowed = {}
        self.files = []
        self.marked = 0
        self.closed = False
        self.driver = None
        self.peak_mib = 0

    def run(self):
        """Returns what failed, as texts."""
        check_keys(self.data)
        self.lane.restore()
        with open(self.lane.folder / f"{self.language.name}.log", "ab") as errors:
            self.driver = Driver(self.language, errors)
            try:
                self.open()
                steps = self.data["steps"]
                for number, step in enumerate(steps, 1):
                    self.allowed = steps[number].get("requests", {}) if number < len(steps) else {}
                    try:
                        self.step(step)
                    except Failed as failed:
                        self.failures.append(f"step {number}: {failed}")
                        # Later steps build on this one.
                        break
                self.finish_background()
                self.check_stats()
            except Hang as hang:
                self.failures.append(f"hang: {hang}")
            except Enough as enough:
                self.failures.append(str(enough))
                self.driver.process.kill()
            except OSError as error:
                self.failures.append(f"the driver is gone: {error}")
            self.peak_mib = self.driver.peak_memory_mib()
            if not self.driver.end() and not self.failures:
                self.failures.append("the driver does not end when its input ends")
        if self.peak_mib > self.language.memory_mib:
            self.failures.append(f"used {self.peak_mib} MiB of memory; {self.language.memory_mib} are allowed")
        self.check_requests()
        self.check_ids()
        return self.failures

    # Steps.

    def step(self, step):
        if "stop" in step:
            self.stop(step)
        elif "ask" in step:
            self.ask(step)
        elif "await" in step:
            request, asked_at = self.started.pop(step["await"])
            answer = self.driver.ask({"do": "await", "started": request["started"]}, step.get("within", self.patience(request)))
            self.judge(request, answer, asked_at, step.get("expect"))
        elif "proxy" in step:
            for fault in step["proxy"] if isinstance(step["proxy"], list) else [step["proxy"]]:
                self.lane.proxy_command(fault)
        elif "service" in step:
            self.lane.service_command(step["service"])
        elif "wait" in step:
            time.sleep(step["wait"])
        elif "mark" in step:
            self.marked = len(self.lane.exchanges)
        elif "requests" in step:
            self.await_requests(step["requests"])
        elif "time_of" in step:
            self.compare_time(step["time_of"])
        elif "uuid_vectors" in step:
            self.compare_vectors()

    def open(self):
        urls = [self.lane.proxies[node].url for node in self.data.get("nodes", ["a"])]
        request = {"do": "open", "urls": urls, "token": self.data.get("token", TOKEN), "options": self.options}
        if "token_faults" in self.data:
            request["token_faults"] = self.data["token_faults"]
        answer = self.driver.ask(request, 20)
        if answer != {"ok": True} and "token" not in self.data:
            raise Hang(f"open was answered with {answer}")

    def patience(self, request):
        """How long the request may take, in seconds."""
        if request["do"] == "burst":
            paced = request["count"] / request["per_second"] if request.get("per_second") else 0
            return 20 + paced
        return request.get("deadline_ms", self.options["deadline_ms"]) / 1000

    def prepare(self, step):
        request = dict(step["ask"])
        if request["do"] == "burst":
            if step.get("scaled"):
                request["count"] = max(1, int(request["count"] * self.language.scale))
            file = self.lane.folder / f"ids-{self.language.name}-{len(self.files)}.txt"
            file.write_text("")
            self.files.append((request["code"], file))
            request["file"] = str(file)
        return request

    def ask(self, step):
        ends = time.monotonic() + step.get("until_ok_within", 0)
        for _ in range(step.get("times", 1)):
            while True:
                request = self.prepare(step)
                asked_at = time.time()
                if "as" in step:
                    started = self.driver.ask({**request, "background": True}, 0)
                    self.started[step["as"]] = ({**request, **started}, asked_at)
                    return
                answer = self.driver.ask(request, step.get("within", self.patience(request)), self.watch)
                if "error" not in answer or time.monotonic() > ends:
                    break
                time.sleep(0.05)
            self.judge(request, answer, asked_at, step.get("expect"))

    def watch(self):
        """Ends a scenario whose requests are already more than the next step allows: they get no fewer."""
        most = self.allowed.get("count")
        if isinstance(most, dict) and "max" in most:
            wanted = {name: value for name, value in self.allowed.items() if name in ("node", "code")}
            try:
                self.count_requests({**wanted, "count": {"max": most["max"]}})
            except Failed as failed:
                raise Enough(str(failed)) from None

    def stop(self, step):
        request = self.prepare(step) if "ask" in step else None
        goes_on = self.driver.sleep_as_stopped(step["stop"], request)
        if request:
            self.judge(request, self.driver.receive(self.patience(request)), goes_on, step.get("expect"))

    def judge(self, request, answer, asked_at, expected):
        """Checks an answer, and keeps its IDs."""
        expected = expected or {}
        if request["do"] == "close" and "error" not in answer:
            self.closed = True
        if "error" in answer:
            if "error" not in expected:
                raise Failed(f"{request} was answered with {answer}")
        elif request["do"] in DRAWS:
            self.keep(request, answer, asked_at)
        if request["do"] == "burst" and isinstance(answer.get("oldest_ms"), (int, float)):
            if answer["oldest_ms"] > self.max_age_ms + OLDEST_TOLERANCE_MS:
                raise Failed(f"an ID of the burst was {answer['oldest_ms']:.0f} ms old; max_age is {self.max_age_ms} ms")
        waited = answer.get("waited_ms", 0)
        if request["do"] in DRAWS and waited > self.patience(request) * 1000 + WAIT_TOLERANCE_MS:
            raise Failed(f"{request} waited for {waited:.0f} ms")
        for name, wanted in expected.items():
            if not matches(answer.get(name), wanted):
                raise Failed(f"{request} was answered with {str(answer)[:400]}; {name} should be {wanted}")

    def keep(self, request, answer, asked_at):
        code, texts = request["code"], answer["ids"]
        if request["do"] == "uuid":
            texts = self.read_uuids(request, texts)
        if request["do"] == "text":
            texts = self.read_texts(request, texts)
        wrong = [text for text in texts if not text.isdigit()]
        if wrong or len(texts) != request.get("n", 1):
            raise Failed(f"{request} got {len(texts)} IDs: {texts[:3]}; wrong: {wrong[:3]}")
        ids = [int(text) for text in texts]
        self.ids[code] += ids
        ordered = ids
        if len(self.data.get("nodes", ["a"])) == 1 and "started" not in request:
            ordered = [self.last.get(code, -1), *ids]
        if any(a >= b for a, b in zip(ordered, ordered[1:])):
            raise Failed(f"{request} got IDs that do not ascend: {ordered[:5]}")
        self.last[code] = ids[-1]
        # They ascend, so the first one is the oldest.
        age_ms = self.age_ms(code, ids[0], asked_at)
        if age_ms is not None and age_ms > self.max_age_ms + AGE_TOLERANCE_MS:
            raise Failed(f"{request} got {ids[0]}, at least {age_ms:.0f} ms old; max_age is {self.max_age_ms} ms")

        ended = [one for one in self.lane.exchanges if one.until and asked_at > one.until]
        ranges = [fields for exchange in ended for fields in exchange.document()["ranges"]]
        if len(not_issued(sorted(ids), ranges)) < len(ids):
            raise Failed(f"{request} got an ID whose answer could be used until {asked_at - ended[-1].until:.1f} s before")

    def layout_time(self, code):
        for exchange in reversed(self.lane.exchanges):
            if exchange.usable and exchange.code == code:
                return exchange.document().get("time")
        return None

    def age_ms(self, code, one, at):
        layout = self.layout_time(code)
        if layout is None:
            return None
        tick = (one >> layout["shift"]) & (2 ** layout["bits"] - 1)
        return at * 1000 - (layout["epoch_ms"] + tick * layout["unit_ms"])

    def await_requests(self, wanted):
        """Compares the requests since the last mark. Where they are too few, the missing ones may be on the way."""
        count = wanted.get("count", 0)
        least = count.get("min", 0) if isinstance(count, dict) else count
        ends = time.monotonic() + ON_THE_WAY_S
        while len(self.requests_of(wanted)) < least and time.monotonic() < ends:
            time.sleep(0.05)
        self.count_requests(wanted)

    def requests_of(self, wanted):
        """Returns the requests since the last mark, of one node or code if `wanted` names it."""
        node, code = wanted.get("node"), wanted.get("code")
        return [one for one in self.lane.exchanges[self.marked :] if node in (None, one.node) and code in (None, one.code)]

    def count_requests(self, wanted):
        """Compares the requests since the last mark: their number, sizes and distance."""
        seen = self.requests_of(wanted)
        wanted = {name: limit for name, limit in wanted.items() if name not in ("node", "code")}
        distances = [b.began - a.began for a, b in zip(seen, seen[1:])]
        # The first requests find out how much is needed.
        later = seen[LEARNING_REQUESTS:]
        facts = {
            "count": len(seen),
            "largest_up_to": max((one.up_to for one in seen), default=0),
            "last_up_to": seen[-1].up_to if seen else 0,
            "first_distance_s": distances[0] if distances else None,
            "ids_per_request": sum(one.issued() for one in later) / len(later) if later else float("inf"),
            "most_bytes_taken": max((one.sent_bytes for one in seen), default=0),
        }
        for name, limit in wanted.items():
            if name not in facts:
                raise ValueError(f"unknown fact of requests: {name}")
            if not matches(facts[name], limit):
                sizes = [one.up_to for one in seen]
                raise Failed(f"{name} of requests is {facts[name]}, should be {limit}; sizes asked for: {sizes[:40]}")

    def compare_time(self, code):
        one = self.last[code]
        answer = self.driver.ask({"do": "time_of", "code": code, "id": str(one)}, 5)
        parsed = self.lane.service.parse(CODES[code]["prefix"] + str(one))
        if answer.get("unix_ms") != parsed["unix_ms"]:
            raise Failed(f"time_of of {one} is {answer}; the service parses {parsed['unix_ms']}")

    def read_texts(self, request, texts):
        """Returns the decimal IDs of texts, each of which has the prefix of the answer that its ID was in."""
        code, ranges = request["code"], {}
        for exchange in self.lane.exchanges:
            if exchange.usable and exchange.code == code:
                prefix = CODES[code]["prefix"] if exchange.prefix is None else exchange.prefix
                ranges.setdefault(prefix, []).extend(exchange.document()["ranges"])
        ids = []
        for text in texts:
            for prefix, own in ranges.items():
                number = text.removeprefix(prefix)
                if text.startswith(prefix) and number.isdigit() and not not_issued([int(number)], own):
                    ids.append(number)
                    break
            else:
                raise Failed(f"{request} got {text}, which has not the prefix of its answer, or its ID was in no whole one")
        return ids

    def read_uuids(self, request, texts):
        """Returns the IDs that the service reads from UUIDs, whose texts ascend and whose random bits differ."""
        if texts != sorted(texts) or any(text != str(uuid.UUID(text)) for text in texts):
            raise Failed(f"{request} got UUIDs that do not ascend, or are not written as usual: {texts[:3]}")
        if len(texts) >= ENOUGH_UUIDS:
            numbers = [uuid.UUID(text).int for text in texts]
            differ = functools.reduce(operator.or_, (number ^ numbers[0] for number in numbers))
            if missing := random_bits(self.layout_time(request["code"])["shift"]) & ~differ:
                raise Failed(f"{request} got UUIDs that are equal in bits which should be random: {missing:032x}")
        return [self.lane.service.parse(text, "uuid7")["id"] for text in texts]

    def compare_vectors(self):
        """Draws the UUID of the one ID of an answer. Each vector has a code of its own, whose buffer is empty."""
        for number, vector in enumerate(VECTORS):
            code, one = f"vector-{number}", vector["id"]
            ranges = [{"first": one, "last": one, "step": "1", "count": 1}]
            body = {"issued_at": "2026-11-28T09:30:00.123Z", **{name: vector[name] for name in ("layout", "time")}, "ranges": ranges}
            self.lane.proxy_command({"fault": "answer", "code": code, "status": 200, "type": "application/json", "body": body})
            request = {"do": "uuid", "code": code}
            answer = self.driver.ask(request, self.patience(request))
            differ = -1
            if len(texts := answer.get("ids", [])) == 1:
                differ = uuid.UUID(texts[0]).int ^ uuid.UUID(vector["uuid"]).int
            if differ & ~random_bits(vector["time"]["shift"]):
                raise Failed(f"the UUID of {one} ({vector['why']}) is {answer}; should be {vector['uuid']} but for its random bits")

    # What holds for every scenario.

    def finish_background(self):
        for name, (request, asked_at) in list(self.started.items()):
            answer = self.driver.ask({"do": "await", "started": request["started"]}, self.patience(request))
            try:
                self.judge(request, answer, asked_at, {"error": [answer.get("error")]})
            except Failed as failed:
                self.failures.append(f"{name}: {failed}")

    def check_stats(self):
        if self.closed:
            return
        stats = self.driver.ask({"do": "stats"}, 5)
        names = {"requests", "failed_requests", "ids_fetched", "ids_dropped", "memory_bytes"}
        if not names <= stats.keys():
            self.failures.append(f"stats are {stats}")

    def check_requests(self):
        token = self.data.get("token", TOKEN)
        seen = list(self.lane.exchanges)
        for exchange in seen:
            problem = exchange.problem(self.options.get("max_range", 100_000), token)
            if problem:
                self.failures.append(f"a request {problem}: {exchange.method} {exchange.code} {exchange.query}")
                break
        # A request that was never answered lasts until now.
        now = time.monotonic()
        for index, one in enumerate(seen):
            for other in seen[index + 1 :]:
                if other.code == one.code and (one.ended or now) - other.began > OVERLAP_S and (other.ended or now) - other.began > OVERLAP_S:
                    self.failures.append(f"two requests of {one.code} were in flight")
                    return

    def check_ids(self):
        for code, file in self.files:
            with open(file, encoding="ascii") as lines:
                self.ids[code] += map(int, lines)
            pathlib.Path(file).unlink()
        for code, ids in self.ids.items():
            ids.sort()
            ranges = [one for exchange in self.lane.exchanges if exchange.usable and exchange.code == code for one in exchange.document()["ranges"]]
            if wrong := not_issued(ids, ranges):
                self.failures.append(f"{len(wrong)} IDs of {code} were in no whole answer: {wrong[:3]}")
                # No answer has these IDs, so they say nothing about other scenarios.
                self.ids[code] = sorted(set(ids).difference(wrong))
        for space in {code["space"] for code in CODES.values()}:
            ids = [one for code, ids in self.ids.items() if CODES[code]["space"] == space for one in ids]
            if twice := self.ledger.add(space, ids):
                self.failures.append(f"{len(twice)} IDs of {space} were drawn twice: {twice[:3]}")

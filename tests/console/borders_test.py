"""Plan: the borders of a layout's bits, which are dragged or moved by keys."""

import json
import re
import urllib.error

from browser import PHONE, Browser, expect
from service import get, serving

UNITS = ("millisecond", "10ms", "second", "minute", "hour", "day")
# The parameters of /plan by the names of the borders.
KEYS = {
    "Timestamp": "timestamp_bits", "Data centre": "data_center_bits", "Worker": "worker_bits",
    "Lane": "rollback_bits", "Reserved": "reserved_bits",
}


class Borders(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(serving())

    def open(self, query="", **options):
        page = self.page(f"{self.service.url}/#plan{query}", **options)
        expect(page.locator(".facts")).to_be_visible()
        return page

    def border(self, page, name):
        return page.get_by_role("separator", name=f"Border of {name}", exact=True)

    def value(self, page, name, which="now"):
        return int(self.border(page, name).get_attribute(f"aria-value{which}"))

    def assert_bits(self, page, **widths):
        """Borders, sliders and the address have the same widths."""
        for name, bits in widths.items():
            label = name.replace("_", " ")
            expect(self.border(page, label)).to_have_attribute("aria-valuenow", str(bits))
            expect(page.get_by_role("slider", name=label, exact=True)).to_have_value(str(bits))
            expect(page).to_have_url(re.compile(rf"\b{KEYS[label]}={bits}\b"))

    def place(self, page, name):
        box = self.border(page, name).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def bit(self, page):
        """The width of a bit on the screen."""
        return page.locator(".borders > .of-timestamp").first.bounding_box()["width"] / self.value(page, "Timestamp")

    def fact(self, page, name):
        return page.locator(".facts div", has=page.locator("dt", has_text=re.compile(f"^{name}$"))).locator("dd")

    def test_a_border_is_dragged_and_what_follows_changes_meanwhile(self):
        page = self.open()
        expect(self.fact(page, "Nodes")).to_have_text("511")
        self.assertEqual([self.value(page, "Worker", which) for which in ("now", "min", "max")], [9, 3, 16])
        expect(self.border(page, "Worker")).to_have_attribute("aria-valuetext", "Worker: 9 bits")
        (x, y), bit = self.place(page, "Worker"), self.bit(page)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + bit, y)
        page.mouse.move(x + 2 * bit, y)
        # The button is still down.
        expect(self.fact(page, "Nodes")).to_have_text("2,047")
        expect(self.fact(page, "IDs per tick and node")).to_have_text("1,024 in each millisecond")
        expect(page.locator(".legend")).to_contain_text("Sequence10 bits")
        expect(page.get_by_label("Begin with")).to_have_value("own")
        self.assert_bits(page, Timestamp=41, Worker=11, Lane=1)
        self.assertAlmostEqual(self.place(page, "Worker")[0], x + 2 * bit, delta=bit / 2)
        # Beyond the widest, and back.
        page.mouse.move(x + 30 * bit, y)
        self.assert_bits(page, Worker=16)
        page.mouse.move(x - 3 * bit, y)
        expect(self.fact(page, "Nodes")).to_have_text("63")
        page.mouse.up()
        self.assert_bits(page, Timestamp=41, Worker=6, Lane=1)
        expect(page.get_by_role("group", name="TOML")).to_contain_text("worker_bits = 6")
        page.mouse.move(x + 5 * bit, y)
        self.assert_bits(page, Worker=6)

        # On the other side of the sequence, where fields grow to the left; the time grows to the right.
        (x, y), bit = self.place(page, "Reserved"), self.bit(page)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 3 * bit, y)
        page.mouse.up()
        self.assert_bits(page, Worker=6, Reserved=3)
        ends = self.fact(page, "Last day")
        expect(ends).to_have_text("2094-09-07")
        (x, y), bit = self.place(page, "Timestamp"), self.bit(page)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + bit, y)
        expect(ends).to_have_text("2164-05-15")
        page.mouse.up()
        self.assert_bits(page, Timestamp=42, Worker=6, Reserved=3)

    def test_a_border_is_dragged_by_a_finger(self):
        page = self.open(viewport=PHONE, has_touch=True)
        border = self.border(page, "Worker")
        border.scroll_into_view_if_needed()
        (x, y), bit = self.place(page, "Worker"), self.bit(page)
        touch = page.context.new_cdp_session(page)

        def send(kind, *points):
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

        send("touchStart", (x, y))
        for step in range(1, 4):
            send("touchMove", (x - step * bit, y + step))
        expect(page.locator(".gist")).to_contain_text("63 nodes")
        send("touchEnd")
        self.assert_bits(page, Worker=6)
        self.assert_fits(page, "after a drag")

    def test_borders_are_moved_by_keys(self):
        page = self.open()
        border = self.border(page, "Worker")
        border.focus()
        for key, bits in (("ArrowRight", 10), ("ArrowRight", 11), ("ArrowLeft", 10), ("Home", 3), ("ArrowLeft", 3), ("End", 16)):
            page.keyboard.press(key)
            self.assert_bits(page, Worker=bits)
            expect(border).to_be_focused()
        expect(self.fact(page, "Nodes")).to_have_text("65,535")
        page.keyboard.press("Tab")
        expect(self.border(page, "Lane")).to_be_focused()
        # A field without bits gets some.
        self.border(page, "Reserved").focus()
        page.keyboard.press("ArrowLeft")
        self.assert_bits(page, Reserved=1, Worker=16)
        page.keyboard.press("ArrowRight")
        self.assert_bits(page, Reserved=0, Worker=16)
        self.border(page, "Timestamp").focus()
        # As many as leave the sequence one bit.
        page.keyboard.press("End")
        self.assert_bits(page, Timestamp=45)
        page.keyboard.press("ArrowRight")
        expect(page.locator(".legend")).to_contain_text("Sequence1 bit")
        expect(self.fact(page, "IDs per tick and node")).to_have_text("2 in each millisecond")
        self.assert_accessible(page, "borders")

    def test_fields_move_the_borders(self):
        page = self.open()
        page.get_by_role("slider", name="Worker").press("ArrowRight")
        self.assert_bits(page, Worker=10)
        expect(self.border(page, "Timestamp")).to_have_attribute("aria-valuemax", "51")
        page.get_by_label("Begin with").select_option("js-safe")
        expect(self.border(page, "Worker")).to_have_attribute("aria-valuenow", "5")
        expect(self.fact(page, "Last day")).to_have_text("the year 37703")
        page.get_by_label("Begin with").select_option("westid-qr")
        expect(page.get_by_text("31 of 63 bits are used.")).to_be_visible()
        expect(page.locator(".borders")).to_have_attribute("aria-label", re.compile("Timestamp 21, .* Sequence 5, Reserved 0"))
        page.get_by_label("Begin with").select_option("raindrop")
        expect(self.border(page, "Worker")).to_have_attribute("aria-valuenow", "9")
        page.get_by_label("Unit of time").select_option("second")
        self.assert_bits(page, Timestamp=31, Worker=9)
        expect(self.border(page, "Timestamp")).to_have_attribute("aria-valuemin", "31")
        # With the sequence behind the time, the others grow to the left.
        page.get_by_label("Order of the fields").select_option("time-sequence-worker")
        self.border(page, "Worker").press("ArrowLeft")
        self.assert_bits(page, Worker=10)
        self.border(page, "Timestamp").press("ArrowRight")
        self.assert_bits(page, Timestamp=32, Worker=10)
        expect(page.locator(".borders")).to_have_attribute("aria-label", re.compile("Timestamp 32, Sequence 20, Data centre 0, Worker 10, Lane 1"))
        # The sequence field keeps its bits when its last number changes.
        page.get_by_label("Last sequence number").fill("1000")
        self.border(page, "Timestamp").press("End")
        self.assert_bits(page, Timestamp=42)
        expect(self.fact(page, "IDs per tick and node")).to_have_text("1,001 in each second")
        # The address is enough to see the same.
        again = self.open(page.url.split("#plan")[1])
        self.assert_bits(again, Timestamp=42, Worker=10)

    def test_widths_that_are_impossible_together_can_be_dragged_apart(self):
        page = self.page(f"{self.service.url}/#plan?timestamp_bits=55&worker_bits=10", expects_errors=True)
        expect(page.get_by_role("alert")).to_contain_text("must be at most 62 bits")
        expect(page.get_by_text("65 of 63 bits are used.")).to_be_visible()
        self.border(page, "Timestamp").press("ArrowLeft")
        self.assert_bits(page, Timestamp=52, Worker=10)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(self.fact(page, "IDs per tick and node")).to_have_text("2 in each millisecond")

    def test_borders_stop_where_the_service_refuses(self):
        page = self.open()

        def is_possible(**changed):
            widths = {KEYS[name]: self.value(page, name) for name in KEYS} | changed
            query = "&".join(f"{key}={bits}" for key, bits in widths.items())
            try:
                return bool(json.load(get(f"{self.service.url}/plan?time_unit={unit}&{query}")))
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 400)
                return False

        for unit in UNITS:
            page.get_by_label("Unit of time").select_option(unit)
            page.get_by_role("slider", name="Timestamp").press("Home")
            for name, key in KEYS.items():
                least, most = self.value(page, name, "min"), self.value(page, name, "max")
                for bits, possible in ((least, True), (least - 1, False), (most, True), (most + 1, False)):
                    self.assertEqual(is_possible(**{key: bits}), possible, f"{unit}: {key}={bits}")

    def test_keys_of_the_browser_move_no_border(self):
        page = self.open()
        self.border(page, "Worker").focus()
        page.evaluate("addEventListener('keydown', (event) => { window.kept = event.defaultPrevented; event.preventDefault(); })")
        for key in ("Alt+ArrowLeft", "Control+Home", "Meta+ArrowRight"):
            page.keyboard.press(key)
            self.assertFalse(page.evaluate("window.kept"), key)
            self.assertEqual(self.value(page, "Worker"), 9, key)
        page.keyboard.press("ArrowLeft")
        self.assert_bits(page, Worker=8)

    def test_more_never_gives_less(self):
        page = self.page(f"{self.service.url}/#plan?timestamp_bits=55&worker_bits=10", expects_errors=True)
        expect(page.get_by_role("alert")).to_contain_text("must be at most 62 bits")
        for key in ("ArrowRight", "End"):
            self.border(page, "Worker").press(key)
            self.assertEqual(self.value(page, "Worker"), 10, key)
        self.border(page, "Worker").press("ArrowLeft")
        self.assert_bits(page, Worker=7)

    def test_a_border_is_dragged_beside_a_time_without_bits(self):
        page = self.page(f"{self.service.url}/#plan?timestamp_bits=0", expects_errors=True)
        expect(page.get_by_role("alert")).to_be_visible()
        (x, y) = self.place(page, "Worker")
        bit = page.locator(".borders > .of-worker_id").first.bounding_box()["width"] / 3
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 2 * bit, y)
        page.mouse.up()
        self.assert_bits(page, Timestamp=0, Worker=5)
        self.assertNotIn("NaN", page.content())

    def test_a_drag_asks_a_few_times_a_second_and_a_limit_is_no_layout(self):
        page = self.open(expects_errors=True)
        asked = []
        page.on("request", lambda request: "/plan?" in request.url and asked.append(request.url))
        (x, y), bit = self.place(page, "Worker"), self.bit(page)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 7 * bit, y, steps=40)
        page.mouse.move(x - 5 * bit, y, steps=40)
        page.mouse.up()
        expect(self.fact(page, "Nodes")).to_have_text("15")
        self.assertIn("worker_bits=4", asked[-1])
        moves = page.evaluate("performance.getEntriesByType('resource').filter((one) => one.name.includes('/plan?')).map((one) => one.startTime)")
        for before, after in zip(moves, moves[1:]):
            self.assertGreater(after - before, 80)

        limit = {"status": 429, "code": "too_many_requests", "detail": "too many requests"}
        refuse = lambda route: route.fulfill(status=429, json=limit)
        page.route("**/plan?*", refuse, times=1)
        self.border(page, "Worker").press("ArrowRight")
        expect(self.fact(page, "Nodes")).to_have_text("31")
        page.route("**/plan?*", refuse)
        self.border(page, "Worker").press("ArrowRight")
        expect(page.get_by_role("alert")).to_have_text("too many requests")
        expect(page.get_by_text("This cannot be")).to_have_count(0)

    def test_only_the_width_that_is_moved_changes(self):
        page = self.open("?preset=westid", expects_errors=True)
        for preset in json.loads(page.locator("meta[name=raindrop]").get_attribute("content"))["presets"]:
            plan = json.load(get(f"{self.service.url}/plan?preset={preset[0]}"))
            bits = next(one["bits"] for one in plan["fields"] if one["name"] == "sequence")
            with self.subTest(preset[0]):
                page.get_by_label("Begin with").select_option(preset[0])
                expect(page.get_by_label("Epoch")).to_have_value(plan["epoch"])
                page.get_by_role("slider", name="Lane").press("ArrowRight")
                expect(page.get_by_label("Begin with")).to_have_value("own")
                expect(page).to_have_url(re.compile(r"epoch=" + plan["epoch"].replace(":", "%3A")))
                last = "" if plan["max_sequence"] == 2**bits - 1 else str(plan["max_sequence"])
                expect(page.get_by_label("Last sequence number")).to_have_value(last)

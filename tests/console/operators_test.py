"""What operators see on their listener: Cluster and Codes, with two nodes on one store."""

import datetime
import json
import re
import tempfile
import urllib.request

from browser import PHONE, Browser, expect
from service import Service, free_port, get


class Operators(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="raindrop-console-"))
        admin = free_port()
        cls.admin = f"http://127.0.0.1:{admin}"
        cls.service = Service(folder, http=f'admin_listen = "127.0.0.1:{admin}"\nadmin_changes = true').start()
        cls.addClassCleanup(cls.service.stop)
        cls.other = Service(folder, holder="10.0.0.8:8080#orders-2").start()
        cls.addClassCleanup(cls.other.stop)

    def test_each_listener_has_its_parts(self):
        page = self.page(self.service.url)
        expect(page.get_by_role("tab")).to_have_text(["Try", "Inspect", "Plan"])
        page = self.page(self.admin)
        expect(page.get_by_role("tab")).to_have_text(["Inspect", "Plan", "Cluster", "Codes"])
        expect(page.get_by_role("link", name="Metrics")).to_be_visible()
        page = self.page(f"{self.admin}/docs")
        expect(page.locator("#metrics")).to_be_visible()

    def workers(self):
        return json.load(get(f"{self.admin}/cluster"))["namespaces"]["default"]["workers"]

    def test_cluster_shows_who_holds_what_and_releases(self):
        workers = self.workers()
        self.assertEqual(len(workers), 2)
        page = self.page(f"{self.admin}/#cluster")
        table = page.get_by_role("region", name="Workers of default")
        rows = table.locator("tbody tr")
        expect(rows).to_have_count(2)
        for worker in workers:
            release = page.get_by_role("button", name=f"Release worker {worker['worker_id']}", exact=True)
            row = table.locator("tbody tr", has=release)
            expect(row).to_contain_text(worker["holder"])
            expect(row).to_contain_text(re.compile("seconds? ago|now"))
        expect(table.locator("tr.this")).to_have_count(1)
        expect(table.locator("tr.this")).to_contain_text("this node")

        mine = table.locator("tr.this b").inner_text()
        other = next(str(one["worker_id"]) for one in workers if str(one["worker_id"]) != mine)
        table.get_by_role("button", name=f"Release worker {other}", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("no ID is issued twice")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(rows).to_have_count(2)
        table.get_by_role("button", name=f"Release worker {other}", exact=True).click()
        dialog.get_by_role("button", name="Release").click()
        expect(dialog).to_have_count(0)
        expect(table.get_by_role("button", name=f"Release worker {other}", exact=True)).to_have_count(0)

    def answer(self, page, path, change):
        """Changes the service's answers to requests of a page."""

        def fulfil(route):
            answer = json.load(get(self.admin + path))
            change(answer)
            route.fulfill(json=answer)

        page.route(self.admin + path, fulfil)

    def test_cluster_counts_down_while_the_store_is_away(self):
        page = self.page(self.admin)
        now = datetime.datetime.now(datetime.timezone.utc)

        def lose(cluster):
            cluster["store_error"] = "connection refused (os error 111)"
            del cluster["store_verified"]
            default = cluster["namespaces"]["default"]
            default["workers"] = cluster["namespaces"]["js"]["workers"] = None
            default["valid_until"] = (now + datetime.timedelta(seconds=100)).isoformat()
            cluster["namespaces"]["js"] |= {"issuing": False, "valid_until": None}
            cluster["history"]["namespaces"]["default"] = {"issued": [7000, 4], "waited": [], "refused": [3, 2]}

        self.answer(page, "/cluster", lose)
        self.tab(page, "Cluster")
        alarm = page.locator(".alarm")
        expect(alarm).to_contain_text("connection refused (os error 111)")
        expect(alarm).to_contain_text("nothing needs a restart")
        row = alarm.locator("tr", has_text="default")
        expect(row.locator("td").nth(1)).to_have_text(re.compile(r"^1m [123]?\ds$"))
        expect(row.locator("td").nth(2)).to_have_text("7,004")
        expect(row.locator("td").nth(3)).to_have_text("5")
        expect(alarm.locator("tr", has_text="js")).to_contain_text("not issuing")
        expect(alarm.locator("tr", has_text="numbers")).to_contain_text("numbers in hand")
        # Between two answers, too: they are 5 s apart.
        count = "document.querySelector('.alarm .count time').textContent"
        seen = page.evaluate(
            f"new Promise((done) => {{ const seen = new Set(); const look = () => seen.add({count});"
            " const timer = setInterval(look, 100); setTimeout(() => { clearInterval(timer); done(seen.size); }, 3500); })"
        )
        self.assertGreaterEqual(seen, 3)
        section = page.locator("section", has=page.get_by_role("heading", name="default", exact=True))
        expect(section).to_contain_text("Unknown until the store answers")
        self.assert_accessible(page, "the store is away")
        page.set_viewport_size(PHONE)
        self.assert_fits(page, "the store is away")
        page.unroute(self.admin + "/cluster")
        expect(alarm).to_have_count(0)
        expect(page.get_by_role("region", name="Workers of default")).to_be_visible()

    def test_cluster_maps_worker_ids(self):
        page = self.page(self.admin)
        now = datetime.datetime.now(datetime.timezone.utc)

        def hold(cluster):
            default, js = cluster["namespaces"]["default"], cluster["namespaces"]["js"]
            worker = {"lane": 0, "renewed": (now - datetime.timedelta(hours=2)).isoformat()}
            held = {**worker, "holder": "held", "expires": (now + datetime.timedelta(hours=1)).isoformat()}
            over = {**worker, "holder": "over", "expires": (now - datetime.timedelta(hours=1)).isoformat()}
            default["layout"] = re.sub(r"\bworker=\d+", "worker=9", default["layout"])
            default["worker_id"] = 3
            default["workers"] = [{**held, "worker_id": 3}, {**held, "worker_id": 4}, {**over, "worker_id": 511}]
            # Of the layout to which the namespace moves.
            default["workers"].append({**held, "worker_id": 600})
            js["layout"] = re.sub(r"\bworker=\d+", "worker=16", js["layout"])
            js["worker_id"] = 65535
            js["workers"] = [{**held, "worker_id": 130}, {**held, "worker_id": 65535}]

        self.answer(page, "/cluster", hold)
        self.tab(page, "Cluster")

        def kinds(name):
            cells = page.get_by_role("img", name=f"Worker ids of {name}:").locator("rect")
            classes = cells.evaluate_all("(all) => all.map((one) => one.getAttribute('class'))")
            return "".join(one.removeprefix("one of-")[0] for one in classes)

        expect(page.get_by_role("img", name="Worker ids of default: 2 of 512 are held")).to_be_visible()
        self.assertEqual(kinds("default"), "uuutw" + "u" * 506 + "l")
        expect(page.locator(".map").first).to_contain_text(re.compile(r"this node1held1lease over1free509$"))
        expect(page.get_by_role("region", name="Workers of default").locator("tr", has_text="511")).to_contain_text("over")
        # 65 536 of them in 512 cells.
        self.assertEqual(kinds("js"), "uw" + "u" * 509 + "t")
        expect(page.locator(".map").nth(1)).to_contain_text("Each cell is 128 worker ids")

    def test_cluster_plots_what_this_node_did(self):
        page = self.page(f"{self.admin}/#cluster")
        section = page.locator("section", has=page.get_by_role("heading", name="default"))
        get(f"{self.service.url}/ids/order?n=321")
        issued = section.locator(".spark", has_text="IDs issued")
        # Intervals of 10 s, asked for every 5 s.
        expect(issued.locator("polyline")).to_be_visible()
        expect(issued).to_contain_text(re.compile(r"[1-9][\d.,]*k? in ten minutes"))
        expect(issued.locator(".axes")).to_have_text(re.compile(r"^[\d.,k]+/s[\d.,k]+/s0/s10 minutes ago5 minutes agonow$"))
        # What did not happen has no plot.
        expect(section.locator(".spark")).to_have_count(1)
        expect(section).to_contain_text("None in ten minutes: Requests that waited")

    def test_codes_are_created_changed_and_retired(self):
        page = self.page(f"{self.admin}/#codes", expects_errors=True)
        table = page.get_by_role("region", name="Codes")
        invoice = table.locator("tr", has_text="invoice")
        expect(invoice).to_contain_text("configured")
        expect(invoice.get_by_role("button", name="Retire")).to_have_count(0)

        page.get_by_role("button", name="New code").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Code", exact=True).fill("ticket")
        dialog.get_by_label("Start").fill("5000")
        dialog.get_by_label("Largest number").fill("100000")
        dialog.get_by_role("button", name="Create").click()
        ticket = table.locator("tr", has_text="ticket")
        expect(ticket).to_contain_text("5,000")
        expect(ticket).to_contain_text("95,001")
        expect(ticket).to_contain_text("managed")

        # A second one of that name is refused, and the dialog stays.
        page.get_by_role("button", name="New code").click()
        dialog.get_by_label("Code", exact=True).fill("ticket")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()

        ticket.get_by_role("button", name="Raise").click()
        dialog.get_by_label("Number").fill("1000")
        dialog.get_by_role("button", name="Raise").click()
        expect(ticket).to_contain_text("6,000")

        ticket.get_by_role("button", name="Widen").click()
        dialog.get_by_label("Largest number").fill("200000")
        dialog.get_by_role("button", name="Save").click()
        expect(ticket).to_contain_text("194,001")

        ticket.get_by_role("button", name="Retire").click()
        dialog.get_by_label("Type ticket to confirm").fill("tickets")
        dialog.get_by_role("button", name="Retire for ever").click()
        expect(dialog.get_by_role("alert")).to_have_text("this is not ticket")
        dialog.get_by_label("Type ticket to confirm").fill("ticket")
        dialog.get_by_role("button", name="Retire for ever").click()
        expect(ticket).to_contain_text("retired")
        expect(ticket.get_by_role("button")).to_have_count(0)

    def test_rates_and_forecasts_of_codes_count_what_was_issued(self):
        page = self.page(self.admin)
        now = datetime.datetime.now(datetime.timezone.utc)
        code = {"namespace": "numbers", "kind": "managed", "step": 500, "reserved_at": None, "min_step": 500, "max_step": 500}
        code |= {"increment": 2, "remainder": 1, "js_safe": False, "start": "1001"}
        issued = 1500

        def made(name, seconds, numbers, in_hand, left, **more):
            created = (now - datetime.timedelta(seconds=seconds)).isoformat()
            return {**code, "code": name, "next": str(1001 + 2 * (numbers + in_hand)), "in_hand": in_hand, "left": left, "created_at": created, **more}

        def answer(codes):
            codes["codes"] = [
                made("known", 300, issued, 500, "134500"),
                made("few", 300, 1499, 500, "134500"),
                made("young", 3, 5000, 0, "134500"),
                made("unused", 300, 0, 0, "134500", step=0),
                made("gone", 300, 5000, 0, "0"),
                {"namespace": "numbers", "code": "strange", "kind": "unserved", "next": "7", "in_hand": 0, "step": 0, "reserved_at": None, "created_at": now.isoformat()},
            ]

        self.answer(page, "/codes", answer)
        self.tab(page, "Codes")
        rows = page.get_by_role("region", name="Codes").locator("tbody tr")
        expect(rows).to_have_count(6)

        def cells(index):
            one = rows.nth(index).locator("td")
            return one.nth(2), one.nth(3), one.nth(5), one.nth(6)

        _, left, rate, ends = cells(0)
        # 1500 in about 300 s, and 135 000 that are not issued.
        expect(rate).to_have_text(re.compile(r"^…on average [45](\.\d+)?/s$"))
        expect(left).to_have_text("Left 134,500 Used 1,500 In hand 500")
        expect(ends).to_contain_text(re.compile("in [78] hours"))
        for index in (1, 2, 3):
            _, _, rate, ends = cells(index)
            expect(rate).to_have_text("…on average …")
            expect(ends).to_have_text("…")
            self.assertIn("Known after 1,500 numbers", ends.locator("span").get_attribute("title"))
        expect(cells(4)[3]).to_have_text("used up")
        expect(cells(5)[3]).to_have_text("–")
        # Another block that is reserved and not issued changes nothing; numbers that are issued do.
        issued = 1600
        expect(cells(0)[2]).to_have_text(re.compile(r"^(9\.\d+|10)/son average [45](\.\d+)?/s$"))
        expect(cells(1)[2]).to_have_text(re.compile(r"^0/son average …$"))

    def test_codes_have_bars_of_what_is_used_in_hand_and_left(self):
        page = self.page(self.admin)
        code = {"namespace": "numbers", "kind": "managed", "step": 500, "min_step": 500, "max_step": 500, "js_safe": False}
        code |= {"increment": 1, "remainder": 0, "reserved_at": None, "created_at": "2026-01-01T00:00:00Z"}

        def made(name, start, next, in_hand, left, max):
            return {**code, "code": name, "start": start, "next": next, "in_hand": in_hand, "left": left, "max": max}

        def answer(codes):
            codes["codes"] = [
                made("ending", "1", "2501", 500, "7500", "10000"),
                made("spent", "1", "101", 0, "0", "100"),
                made("huge", "1", "2501", 500, "9007199254738491", "9007199254740991"),
                made("endless", "1", "2501", 500, "9223372036854773306", "9223372036854775806"),
            ]

        self.answer(page, "/codes", answer)
        self.tab(page, "Codes")
        rows = page.get_by_role("region", name="Codes").locator("tbody tr")
        expect(rows).to_have_count(4)

        def bar(index):
            parts = rows.nth(index).locator(".meter i").all()
            return [(part.get_attribute("class"), part.evaluate("(one) => one.style.width")) for part in parts]

        left = rows.locator("td:nth-child(4)")
        expect(left.nth(0)).to_have_text("Left 7,500 Used 2,000 In hand 500")
        self.assertEqual(bar(0), [("of-worker_id", "20%"), ("of-lane", "5%"), ("of-unused", "75%")])
        # Each colour beside its text.
        swatches = left.nth(0).locator(".swatch").evaluate_all("(all) => all.map((one) => one.className + one.parentNode.textContent)")
        self.assertEqual(swatches, ["swatch of-unused Left 7,500", "swatch of-worker_id Used 2,000", "swatch of-lane In hand 500"])
        expect(left.nth(1)).to_have_text("Left 0 Used 100 In hand 0")
        self.assertEqual(bar(1), [("of-worker_id", "100%")])
        expect(left.nth(2)).to_have_text("Left ≈ 9.0 × 1015 Used 2,000 In hand 500")
        self.assertEqual([name for name, _ in bar(2)], ["of-worker_id", "of-lane", "of-unused"])
        expect(left.nth(3)).to_have_text("Left ≈ 9.2 × 1018no end below 2^63 Used 2,000 In hand 500")
        self.assertEqual(bar(3), [])
        self.assert_accessible(page, "bars")
        page.set_viewport_size(PHONE)
        self.assert_fits(page, "bars")

    def test_bars_of_a_real_service(self):
        body = json.dumps({"max": "100000"}).encode()
        url = f"{self.admin}/codes/bounded?namespace=numbers"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        for name in ("bounded", "unbounded"):
            get(f"{self.service.url}/ids/{name}?namespace=numbers&n=30").close()
        page = self.page(f"{self.admin}/#codes")
        for name, is_endless in (("bounded", False), ("unbounded", True)):
            row = page.get_by_role("region", name="Codes").locator("tr", has=page.get_by_text(name, exact=True))
            code = json.load(get(f"{self.admin}/codes/{name}?namespace=numbers"))
            expect(row).to_contain_text(f"Used 30 In hand {code['in_hand']:,}")
            self.assertEqual(int(code["next"]) - 1, 30 + code["in_hand"])
            expect(row.locator(".meter")).to_have_count(0 if is_endless else 1)
            if is_endless:
                expect(row).to_contain_text("no end below 2^63")
            else:
                expect(row).to_contain_text(f"Left {100_000 - 30 - code['in_hand']:,}")

    def test_rates_come_from_a_real_service(self):
        for _ in range(3):
            get(f"{self.service.url}/ids/metered?namespace=numbers&n=10")
        code = json.load(get(f"{self.admin}/codes/metered?namespace=numbers"))
        page = self.page(f"{self.admin}/#codes")
        row = page.get_by_role("region", name="Codes").locator("tr", has_text="metered")
        expect(row.locator("td").nth(6)).to_have_text("…")
        self.assertEqual(int(code["next"]) - int(code["start"]) - code["in_hand"], 30)

    def test_what_is_left_empty_is_configured_and_digits_are_kept(self):
        page = self.page(f"{self.admin}/#codes")
        page.get_by_role("button", name="New code").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Code", exact=True).fill("huge")
        dialog.get_by_role("button", name="Create").click()
        row = page.get_by_role("region", name="Codes").locator("tr", has_text="huge")
        row.get_by_role("button", name="Raise").click()
        dialog.get_by_label("Number").fill("9007199254740993")
        dialog.get_by_role("button", name="Raise").click()
        expect(row).to_contain_text("9,007,199,254,740,994")
        code = json.load(get(f"{self.admin}/codes/huge?namespace=numbers"))
        self.assertEqual((code["min_step"], code["max_step"]), (500, 1_000_000))

    def test_a_code_created_here_is_used_on_another_node(self):
        page = self.page(f"{self.admin}/#codes")
        page.get_by_role("button", name="New code").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Code", exact=True).fill("parcel")
        dialog.get_by_label("Start").fill("70000")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("region", name="Codes")).to_contain_text("parcel")
        answer = json.load(get(f"{self.other.url}/id/parcel?namespace=numbers"))
        self.assertGreaterEqual(int(answer["id"]), 70000)

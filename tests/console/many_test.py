"""Cluster and Codes with many rows, and with a service or a store that is away."""

import contextlib
import datetime
import json
import re
import sqlite3
import tempfile
import urllib.request

from browser import PHONE, WIDE, Browser, expect
from service import Service, free_port, get, serving

CODES = 1001
# The first code under another name, with another next number and start.
COPY_ROW = (
    "SELECT namespace, ?1, ?2, step, token, epoch, created_at, updated_at"
    " FROM soc_raindrop_segment WHERE code = 'tenant-0000'"
)
COPY_SETTINGS = (
    "SELECT namespace, ?1, replace(settings, 'start=10000', 'start=' || ?2), token, created_at, updated_at"
    " FROM soc_raindrop_segment_settings WHERE code = 'tenant-0000'"
)
WORKERS = 461
ROWS = 50


def admin():
    """The settings of a listener for operators, and its address."""
    port = free_port()
    return f'admin_listen = "127.0.0.1:{port}"\nadmin_changes = true', f"http://127.0.0.1:{port}"


class Many(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="raindrop-console-"))
        settings, cls.admin = admin()
        cls.service = Service(folder, http=settings).start()
        cls.addClassCleanup(cls.service.stop)
        url = f"{cls.admin}/codes/tenant-0000?namespace=numbers"
        request = urllib.request.Request(url, b'{"start": 10000}', {"Content-Type": "application/json"}, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        # One transaction for all codes: one for each code takes minutes on a slow disk.
        with contextlib.closing(sqlite3.connect(f"{folder}/raindrop.db", timeout=30)) as store, store:
            for number in range(1, CODES):
                row = (f"tenant-{number:04}", 10_000 + number)
                store.execute(f"INSERT INTO soc_raindrop_segment {COPY_ROW}", row)
                store.execute(f"INSERT INTO soc_raindrop_segment_settings {COPY_SETTINGS}", row)

    def codes(self, **options):
        page = self.page(f"{self.admin}/#codes", **options)
        table = page.get_by_role("region", name="Codes")
        expect(table.locator("tbody tr")).to_have_count(ROWS)
        return page, table

    def workers(self, cluster):
        """461 worker ids are held, three of them by nodes that are gone."""
        now = datetime.datetime.now(datetime.timezone.utc)

        def held(number):
            ends = now + datetime.timedelta(seconds=-40 if number % 150 == 0 else 80)
            times = {"renewed": (now - datetime.timedelta(seconds=5)).isoformat(), "expires": ends.isoformat()}
            return {"worker_id": number, "lane": 0, "holder": f"ids/raindrop-{number}", **times}

        cluster["namespaces"]["default"]["workers"] = [held(number) for number in range(1, WORKERS + 1)]

    def cluster(self, change, **options):
        page = self.page(self.admin, **options)
        self.change = change

        def fulfil(route):
            answer = json.load(get(f"{self.admin}/cluster"))
            self.change(answer)
            route.fulfill(json=answer)

        page.route(f"{self.admin}/cluster", fulfil)
        self.tab(page, "Cluster")
        return page, page.get_by_role("region", name="Workers of default")

    def test_the_code_behind_the_first_thousand_is_found(self):
        page, table = self.codes()
        # `invoice` is configured.
        expect(page.get_by_role("status").last).to_have_text(f"1–{ROWS} of 1,002")
        page.get_by_role("searchbox", name="Filter Codes").fill("tenant-1000")
        expect(table.locator("tbody tr")).to_have_count(1)
        expect(table).to_contain_text("11,000")
        # A poll keeps the filter, and the focus in it.
        with page.expect_response("**/codes"):
            pass
        expect(page.get_by_role("searchbox")).to_be_focused()
        expect(page.get_by_role("searchbox")).to_have_value("tenant-1000")
        expect(table.locator("tbody tr")).to_have_count(1)
        page.get_by_role("searchbox").fill("configured")
        expect(table.locator("tbody tr")).to_have_count(1)
        expect(table).to_contain_text("invoice")
        page.get_by_role("searchbox").fill("nothing of the kind")
        expect(page.locator("main")).to_contain_text("No row has these words.")

    def test_codes_come_in_pages_and_are_sorted_by_any_column(self):
        page, table = self.codes()
        height = page.evaluate("document.documentElement.scrollHeight")
        self.assertLess(height, 10_000)
        first = table.locator("tbody tr").first
        expect(first).to_contain_text("invoice")
        page.get_by_role("button", name="Next page").click()
        expect(page.get_by_role("status").last).to_have_text("51–100 of 1,002")
        expect(first).to_contain_text("tenant-0049")
        page.get_by_role("button", name="Previous page").click()
        expect(page.get_by_role("button", name="Previous page")).to_be_disabled()
        head = table.get_by_role("columnheader", name="Next")
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "ascending")
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "descending")
        expect(first).to_contain_text("tenant-1000")
        # Another language keeps what the user chose.
        page.get_by_role("button", name="中文").click()
        expect(page.locator("tbody tr").first).to_contain_text("tenant-1000")

    def test_more_codes_than_are_read_at_once_can_be_reached(self):
        page = self.page(self.admin)
        asked = []

        def fulfil(route):
            url = route.request.url
            after = int(re.search(r"after=c(\d+)", url).group(1)) if "after" in url else -1
            asked.append(after)
            codes = [
                {"namespace": "numbers", "code": f"c{n:05}", "kind": "unserved", "next": "7", "in_hand": 0, "step": 0,
                 "reserved_at": None, "created_at": "2026-01-01T00:00:00Z"} for n in range(after + 1, after + 1001)
            ]
            route.fulfill(json={"codes": codes, "has_more": after < 11_000})

        page.route(f"{self.admin}/codes**", fulfil)
        self.tab(page, "Codes")
        expect(page.get_by_text("The first 10,000 codes")).to_be_visible()
        self.assertEqual(asked, [-1, *range(999, 9000, 1000)])
        page.get_by_role("button", name="The codes behind c09999").click()
        expect(page.locator("tbody tr").first).to_contain_text("c10000")
        expect(page.get_by_text("codes behind c09999")).to_be_visible()
        page.get_by_role("button", name="From the first").click()
        expect(page.locator("tbody tr").first).to_contain_text("c00000")

    def test_workers_are_filtered_and_sorted(self):
        page, table = self.cluster(self.workers)
        rows = table.locator("tbody tr")
        expect(rows).to_have_count(ROWS)
        box = page.get_by_role("searchbox", name="Filter Workers of default")
        box.fill("lease over")
        expect(rows).to_have_count(3)
        box.fill("raindrop-461")
        expect(rows).to_have_count(1)
        box.fill("")
        head = table.get_by_role("columnheader", name="Worker")
        head.get_by_role("button").click()
        head.get_by_role("button").click()
        expect(rows.first).to_contain_text("461")

    def test_a_poll_keeps_the_rows_and_what_is_selected(self):
        page, table = self.cluster(self.workers)
        holder = table.locator("tbody tr").nth(3).locator("td").nth(2)
        expect(holder).to_have_text("ids/raindrop-4")
        holder.evaluate("(one) => { window.kept = one; getSelection().selectAllChildren(one); }")
        seen = []

        def fewer(cluster):
            self.workers(cluster)
            # A row above it goes, and the times of all others change.
            del cluster["namespaces"]["default"]["workers"][1]
            seen.append(cluster)

        self.change = fewer
        expect(table.locator("tbody tr").nth(2)).to_contain_text("raindrop-4")
        self.assertTrue(seen)
        self.assertEqual(page.evaluate("getSelection().toString()"), "ids/raindrop-4")
        self.assertTrue(page.evaluate("window.kept.isConnected"))

    def test_the_overview_names_what_is_wrong_and_leads_there(self):
        def broken(cluster):
            self.workers(cluster)
            cluster["namespaces"]["js"] |= {"issuing": False, "valid_until": None, "reason": "every worker id is held"}

        page, _ = self.cluster(broken)
        overview = page.locator("section").first
        expect(overview.get_by_role("heading")).to_have_text("Overview")
        expect(overview).to_contain_text("1 of 3 namespaces in trouble")
        expect(overview.locator("li")).to_have_text("js every worker id is held")
        # 458 of `default`, and the service of this test, which holds a worker id of `js`.
        expect(overview).to_contain_text("Nodes with a lease459")
        expect(overview).to_contain_text("Leases that are over3")
        expect(overview).to_contain_text(re.compile(r"without the store for\d+m \d+s default"))
        overview.get_by_role("link", name="js").click()
        expect(page.locator("#namespace-js")).to_be_focused()
        expect(page.locator("#namespace-js")).to_be_in_viewport()
        self.assertIn("#cluster", page.url)
        self.change = self.workers
        expect(overview).to_contain_text("every namespace issues")

    def test_the_last_data_stay_while_the_service_is_away(self):
        settings, url = admin()
        with serving(http=settings) as service:
            page = self.page(f"{url}/#cluster", expects_errors=True)
            rows = page.locator("tbody tr")
            expect(rows.first).to_be_visible()
            service.stop()
            expect(page.locator("main")).to_contain_text(re.compile(r"Shown is the last answer, from \d+m \d+s ago\."))
            expect(rows.first).to_contain_text("orders-1")
            self.assert_accessible(page, "the service is away")
            page.set_viewport_size(PHONE)
            self.assert_fits(page, "the service is away")
            service.start()
            expect(page.get_by_text("Shown is the last answer")).to_have_count(0)
            expect(rows.first).to_be_visible()

    def test_who_held_which_worker_stays_while_the_store_is_away(self):
        page, table = self.cluster(self.workers)
        expect(table.locator("tbody tr")).to_have_count(ROWS)

        def lose(cluster):
            cluster["store_error"] = "connection refused"
            cluster["namespaces"]["default"]["workers"] = cluster["namespaces"]["js"]["workers"] = None

        self.change = lose
        section = page.locator("#namespace-default")
        expect(section).to_contain_text(re.compile(r"As the store had it \d+m \d+s ago\."))
        expect(table.locator("tbody tr")).to_have_count(ROWS)
        self.change = self.workers
        expect(page.get_by_text("As the store had it")).to_have_count(0)

    def test_a_refused_token_takes_the_data_away(self):
        page, table = self.cluster(self.workers, expects_errors=True)
        expect(table).to_be_visible()
        page.unroute(f"{self.admin}/cluster")
        problem = {"status": 403, "detail": "this token may not see the cluster"}
        page.route(f"{self.admin}/cluster", lambda route: route.fulfill(status=403, json=problem))
        expect(page.get_by_role("alert")).to_have_text("this token may not see the cluster")
        expect(table).to_have_count(0)

    def test_names_stay_beside_their_actions_on_every_screen(self):
        page, table = self.codes(viewport={"width": 700, "height": 900})
        row = table.locator("tbody tr").nth(1)
        name, actions = row.locator("td").first, row.locator("td").last
        table.evaluate("(one) => one.scrollTo(one.scrollWidth, 0)")
        expect(actions.get_by_role("button", name="Retire")).to_be_in_viewport()
        frame, box = table.bounding_box(), name.bounding_box()
        self.assertGreaterEqual(box["x"], frame["x"] - 1)
        page.set_viewport_size(PHONE)
        name, actions = name.bounding_box(), actions.bounding_box()
        self.assertLess(actions["y"] - name["y"], 80)
        self.assert_fits(page, "many codes")
        page.set_viewport_size(WIDE)
        self.assertGreater(page.locator("main").bounding_box()["width"], 1380)

    def test_many_rows_are_accessible(self):
        for colours in ("light", "dark"):
            page, _ = self.codes(color_scheme=colours)
            self.assert_accessible(page, f"codes, {colours}")
            self.close(page)
            page, table = self.cluster(self.workers, color_scheme=colours)
            expect(table).to_be_visible()
            self.assert_accessible(page, f"workers, {colours}")
            self.close(page)

    def test_words_of_raindrop_are_explained(self):
        page, table = self.codes()

        def explained(place, told):
            place.get_by_role("button", name="What is this?").first.press("Enter")
            expect(page.locator(".tipped")).to_contain_text(told)
            self.assert_accessible(page, told)
            page.keyboard.press("Escape")
            expect(page.locator(".tipped")).to_have_count(0)

        # `in hand` is a part of what is left.
        explained(table.get_by_role("columnheader", name="Left"), "reserved and not issued")
        explained(table.get_by_role("columnheader", name="Step"), "the next block")
        self.tab(page, "Cluster")
        explained(page.get_by_role("region").get_by_role("columnheader", name="Lane").first, "When the clock goes back")
        explained(page.locator("#namespace-numbers div", has_text="Numbers in hand"), "reserved and not issued")
        self.tab(page, "Plan")
        explained(page.locator(".field", has_text="Epoch"), "the timestamp of an ID is 0")

    def test_fields_of_a_dialog_are_aligned(self):
        page, table = self.codes()
        for opened in ("New code", "Widen: tenant-0000"):
            page.get_by_role("button", name=opened).click()
            dialog = page.get_by_role("dialog")
            tops = {}
            for one in dialog.locator(".field").all():
                label, control = one.locator("label").bounding_box(), one.locator("input").bounding_box()
                tops.setdefault(round(one.bounding_box()["y"]), set()).add((round(label["x"]), round(control["y"])))
            for of_a_row in tops.values():
                self.assertEqual(len({y for _, y in of_a_row}), 1, (opened, tops))
            self.assertEqual(len({x for of_a_row in tops.values() for x, _ in of_a_row}), 2, (opened, tops))
            expect(dialog).to_contain_text("Smallest step")
            page.keyboard.press("Escape")
        page.get_by_role("button", name="Widen: tenant-0000").click()
        expect(page.get_by_role("dialog")).to_contain_text("up to two blocks")

    def test_the_content_is_the_first_thing_that_the_keyboard_reaches(self):
        page, _ = self.codes()
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        self.assertIn("#codes", page.url)

    def test_progress_is_shown_while_many_ids_are_read(self):
        ids = json.load(get(f"{self.service.url}/ids/order?n=200"))["ids"]
        page = self.page(f"{self.service.url}/#inspect")
        passed, held, most = [], [], 50

        def hold(route):
            if len(passed) == most:
                held.append(route)
            else:
                passed.append(route)
                route.continue_()

        page.route(f"{self.service.url}/parse/**", hold)
        page.get_by_role("textbox", name="IDs").fill("\n".join(ids))
        bar = page.get_by_role("progressbar", name="Reading 200 IDs…")
        expect(bar).to_have_js_property("value", 50)
        expect(bar).to_have_js_property("max", 200)
        most = 200
        for route in held:
            route.continue_()
        expect(page.get_by_role("heading", name="200 IDs by time")).to_be_visible()
        expect(bar).to_have_count(0)

    def test_a_date_that_is_past_says_so(self):
        page = self.page(f"{self.admin}/#plan")
        facts = page.locator(".facts")
        # Beyond 2^53 some weeks after the epoch.
        expect(facts.locator("div", has_text="Safe in JavaScript until")).to_contain_text("2025-01-25, which is past")
        expect(facts.locator("div", has_text="Last day")).to_have_text(re.compile(r"^Last day20\d\d-\d\d-\d\d$"))

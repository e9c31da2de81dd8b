"""Try: the stream of one ID each second."""

import json
import re
import time

from browser import PHONE, Browser, expect
from service import claimed, get, serving


class Live(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(serving())

    def open(self, query, **options):
        page = self.page(f"{self.service.url}/#try?{query}", **options)
        expect(page.locator(".newest")).to_contain_text("No ID was claimed yet")
        return page, page.get_by_role("button", name="One ID each second"), page.locator(".live li")

    def assert_stopped(self, toggle):
        if toggle:
            expect(toggle).to_have_attribute("aria-pressed", "false")
        before = claimed(self.service)
        time.sleep(1.5)
        self.assertEqual(claimed(self.service), before)

    def test_a_stream_shows_the_newest_ids_with_their_time_and_stops(self):
        before = claimed(self.service)
        page, toggle, rows = self.open("code=order", viewport=PHONE)
        expect(toggle).to_have_attribute("aria-pressed", "false")
        self.assertEqual(claimed(self.service), before)
        begun = time.monotonic()
        toggle.focus()
        page.keyboard.press("Enter")
        expect(toggle).to_have_attribute("aria-pressed", "true")
        expect(rows.nth(3)).to_be_visible()
        self.assertGreater(time.monotonic() - begun, 2.5)
        self.assert_accessible(page, "a stream")
        self.assert_fits(page, "a stream")
        toggle.click()
        self.assert_stopped(toggle)
        shown = [(row.locator("code").inner_text(), row.locator("small").inner_text()) for row in rows.all()]
        self.assertEqual(sorted(shown, key=lambda one: int(one[0]), reverse=True), shown)
        self.assertIn(claimed(self.service) - before - len(shown), (0, 1))
        for id, told in shown:
            self.assertEqual(json.load(get(f"{self.service.url}/parse/{id}"))["timestamp"], told)
        # The newest ten of another stream.
        toggle.click()
        self.assertLessEqual(rows.count(), 1)
        expect(rows).to_have_count(10)
        first = rows.last.inner_text()
        expect(rows.last).not_to_have_text(first)
        expect(rows).to_have_count(10)

    def test_a_stream_is_of_the_chosen_code_and_format(self):
        for query, form in (
            ("code=order&encoding=hex&n=50", r"^[0-9a-f]{16}$"),
            ("code=order&format=text", r"^\d{18,19}$"),
            ("code=order&format=range", r"^\d{18,19}$"),
            ("code=order&format=number&namespace=js", r"^\d{12,16}$"),
        ):
            page, toggle, rows = self.open(query)
            toggle.click()
            expect(rows.nth(1)).to_be_visible()
            expect(rows.first.locator("code")).to_have_text(re.compile(form))
            expect(rows.first.locator("small")).to_have_text(re.compile(r"^20\d\d-\d\d-\d\dT\S+Z$"))
            self.close(page)
        page, toggle, rows = self.open("code=invoice", expects_errors=True)
        toggle.click()
        expect(rows.nth(1)).to_be_visible()
        expect(rows.first).to_have_text(re.compile(r"^INV-\d+A plain number, without fields or a time\.$"))

    def test_a_stream_stops_when_the_page_is_left_or_hidden_or_another_code_is_typed(self):
        page, toggle, rows = self.open("code=order")

        def start():
            toggle.click()
            expect(rows.nth(1)).to_be_visible()

        start()
        page.get_by_label("Code", exact=True).press("End")
        page.keyboard.type("s")
        self.assert_stopped(toggle)
        start()
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        self.assert_stopped(toggle)
        page.evaluate("delete document.hidden")
        start()
        self.tab(page, "Inspect")
        self.assert_stopped(None)
        self.tab(page, "Try")
        expect(toggle).to_have_attribute("aria-pressed", "false")
        expect(rows).to_have_count(0)

    def test_a_stream_stops_on_an_error_and_shows_it(self):
        page, toggle, rows = self.open("code=not+a+code", expects_errors=True)
        toggle.click()
        expect(page.get_by_role("alert")).to_contain_text('"not a code"')
        self.assert_stopped(toggle)
        page.get_by_label("Code", exact=True).fill("order")
        toggle.click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(rows.nth(1)).to_be_visible()
        problem = {"status": 503, "code": "store_unavailable", "detail": "no worker id is left"}
        page.route("**/id/order", lambda route: route.fulfill(status=503, json=problem))
        expect(page.get_by_role("alert")).to_have_text("no worker id is left")
        self.assert_stopped(toggle)
        # What came before stays.
        self.assertGreaterEqual(rows.count(), 2)
        page.get_by_label("Code", exact=True).fill("")
        toggle.click()
        self.assert_stopped(toggle)

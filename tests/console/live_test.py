"""Try: the stream of one ID each second."""

import json
import re
import time

from browser import PHONE, Browser, expect
from service import TOKEN, claimed, get, serving, token_file


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

    def test_an_id_is_shown_although_its_time_is_refused(self):
        page, toggle, rows = self.open("code=order", expects_errors=True)
        problem = {"status": 403, "code": "forbidden", "detail": "not with this token"}
        page.route("**/parse/*", lambda route: route.fulfill(status=403, json=problem))
        toggle.click()
        expect(page.get_by_role("alert")).to_have_text("not with this token")
        expect(rows.locator("code")).to_have_text(re.compile(r"^\d{18}$"))
        self.assert_stopped(toggle)
        page.get_by_role("button", name="Get IDs").click()
        expect(page.locator(".newest").get_by_role("alert")).to_have_text("not with this token")
        expect(page.locator(".id.big")).to_have_text(re.compile(r"^\d{18}$"))

    def test_the_time_of_a_bound_code_is_not_that_of_another_namespace(self):
        for query, form in (("code=bound", r"^Choose its namespace"), ("code=bound&namespace=js", r"^20\d\d-")):
            page, toggle, rows = self.open(query)
            toggle.click()
            expect(rows.first.locator("small")).to_have_text(re.compile(form))
            toggle.click()
            page.get_by_role("button", name="Get IDs").click()
            expect(page.locator(".newest")).to_contain_text("Choose its namespace" if form[1] == "C" else "Inspect it")
            self.close(page)

    def test_the_warning_of_the_service_is_shown(self):
        page, toggle, rows = self.open("code=order")

        def warned(route):
            answer = route.fetch()
            route.fulfill(response=answer, json={**answer.json(), "warning": "the clock is wrong"})

        page.route("**/parse/*", warned)
        toggle.click()
        expect(rows.first).to_contain_text("Z the clock is wrong")
        page.get_by_role("button", name="Get IDs").click()
        expect(page.locator(".newest .problem")).to_have_text("the clock is wrong")
        expect(page.locator(".newest .bar")).to_be_visible()

    def test_a_clock_that_steps_back_does_not_stop_the_stream(self):
        page, toggle, rows = self.open("code=order")
        toggle.click()
        expect(rows.nth(0)).to_be_visible()
        page.evaluate("const now = Date.now; Date.now = () => now() - 36e5")
        # The row that waited already, and those after it.
        expect(rows.nth(3)).to_be_visible(timeout=8000)

    def test_a_token_that_is_forgotten_stops_the_stream(self):
        with serving(tokens=token_file(permissions='["ids"]')) as service:
            page = self.page(f"{service.url}/#try?code=order", expects_errors=True)
            toggle, rows = page.get_by_role("button", name="One ID each second"), page.locator(".live li")
            toggle.click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Token").fill(TOKEN)
            page.keyboard.press("Enter")
            expect(rows.nth(1)).to_be_visible()
            page.get_by_role("button", name="Forget token").click()
            expect(toggle).to_have_attribute("aria-pressed", "false")
            expect(page.get_by_role("alert")).to_contain_text("token")
            expect(dialog).to_have_count(0)
            # A new stream asks again.
            toggle.click()
            expect(dialog).to_be_visible()

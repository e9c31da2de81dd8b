"""What holds for every part: keyboard, width, colours, language, weight, tokens, outages."""

import json
import os
import random
import re
import tempfile
import time
import urllib.request

from browser import PHONE, WIDE, Browser, expect, pictures
from service import TOKEN, Service, free_port, get, serving, token_file

# All that a page loads.
MOST_BYTES = 100_000
MOST_BYTES_OF_A_PICTURE = 150_000
SECONDS_OF_LOAD = 60
KEPT = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


class Pages(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="raindrop-console-"))
        admin = free_port()
        cls.admin = f"http://127.0.0.1:{admin}"
        cls.service = Service(folder, http=f'admin_listen = "127.0.0.1:{admin}"\nadmin_changes = true').start()
        cls.addClassCleanup(cls.service.stop)
        ids = json.load(get(f"{cls.service.url}/ids/order?n=3"))["ids"]
        cls.ids = ",".join(ids)
        cls.parts = {
            "try": f"{cls.service.url}/#try?n=20",
            "one": f"{cls.service.url}/",
            "inspect": f"{cls.service.url}/#inspect?ids={ids[0]}",
            "many": f"{cls.service.url}/#inspect?ids={cls.ids},what",
            "plan": f"{cls.service.url}/#plan",
            "impossible": f"{cls.service.url}/#plan?timestamp_bits=55&worker_bits=10",
            "cluster": f"{cls.admin}/#cluster",
            "codes": f"{cls.admin}/#codes",
            "docs": f"{cls.service.url}/docs",
        }
        # The element that appears when a part has its answers.
        cls.done = {
            "try": ".newest .bar", "one": ".newest .bar", "inspect": ".encodings", "many": "tbody tr", "plan": ".stack .facts",
            "impossible": "[role=alert]", "cluster": "tbody tr", "codes": "tbody tr", "docs": "section[id]",
        }

    def open(self, part, **options):
        page = self.page(self.parts[part], expects_errors=part in ("many", "impossible"), **options)
        expect(page.locator(self.done[part]).first).to_be_visible()
        return page

    def test_no_part_is_inaccessible(self):
        for colours in ("light", "dark"):
            for part in self.parts:
                page = self.open(part, color_scheme=colours)
                self.assert_accessible(page, f"{part}, {colours}")
                self.close(page)

    def test_dialogs_are_accessible(self):
        for colours in ("light", "dark"):
            page = self.open("codes", color_scheme=colours)
            page.get_by_role("button", name="New code").click()
            self.assert_accessible(page, f"new code, {colours}")
            page.keyboard.press("Escape")
            expect(page.get_by_role("button", name="New code")).to_be_focused()

    def test_every_part_fits_a_phone(self):
        for locale in ("en-GB", "zh-CN"):
            for part in self.parts:
                page = self.open(part, viewport=PHONE, locale=locale)
                self.assert_fits(page, f"{part}, {locale}")
                self.close(page)

    def test_every_part_fits_a_wide_screen(self):
        for part in self.parts:
            page = self.open(part, viewport=WIDE)
            self.assert_fits(page, part)
            self.close(page)

    def test_everything_can_be_reached_by_keyboard_alone(self):
        page = self.open("try")
        press = page.keyboard.press

        def focused():
            return page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")

        def tab_to(what, most=40):
            for _ in range(most):
                if focused() == what:
                    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                    self.assertEqual(outline, "solid", f"the focus on {what} is visible")
                    return
                press("Tab")
            self.fail(f"{what} is not reached: {focused()}")

        tab_to("tab-try")
        press("ArrowRight")
        self.assertEqual(focused(), "tab-inspect")
        self.assertIn("#inspect", page.url)
        press("End")
        self.assertEqual(focused(), "tab-plan")
        press("ArrowRight")
        self.assertEqual(focused(), "tab-try")
        press("Tab")
        tab_to("Get IDs")
        before = page.locator(".id.big").inner_text()
        press("Enter")
        expect(page.locator(".id.big")).not_to_have_text(before)
        press("Shift+Tab")
        press("Shift+Tab")
        tab_to("Copy")
        tab_to("API documentation")

    def test_keyboard_alone_creates_a_code_and_retires_it(self):
        page = self.open("codes")
        page.get_by_role("button", name="New code").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_label("Code", exact=True)).to_be_focused()
        page.keyboard.type("typed")
        page.keyboard.press("Enter")
        row = page.locator("tr", has_text="typed")
        expect(row).to_be_visible()
        row.get_by_role("button", name="Retire").focus()
        page.keyboard.press("Enter")
        page.keyboard.type("typed")
        page.keyboard.press("Enter")
        expect(row).to_contain_text("retired")

    def test_colours_follow_the_system_until_they_are_chosen(self):
        page = self.open("plan", color_scheme="dark")
        background = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(background)
        page.emulate_media(color_scheme="light")
        expect(page.locator("html")).to_have_attribute("data-colours", "light")
        self.assertNotEqual(page.evaluate(background), dark)
        page.reload()
        page.get_by_role("button", name="Dark").click()
        self.assertEqual(page.evaluate(background), dark)
        page.reload()
        expect(page.get_by_role("button", name="Light")).to_be_visible()
        self.assertEqual(page.evaluate(background), dark)

    def test_chinese_by_the_browser_and_by_choice(self):
        page = self.open("plan", locale="zh-CN")
        expect(page.get_by_role("tab")).to_have_text(["试用", "解析", "规划"])
        self.assertEqual(page.evaluate("document.documentElement.lang"), "zh-CN")
        page.get_by_role("button", name="English").click()
        expect(page.get_by_role("tab")).to_have_text(["Try", "Inspect", "Plan"])
        expect(page.get_by_role("button", name="中文")).to_be_focused()
        page.reload()
        expect(page.get_by_role("tab").first).to_have_text("Try")
        page.goto(self.parts["docs"])
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("API 文档")

    def test_every_text_has_its_chinese(self):
        # Words that are the same, names of things in the API, and numbers.
        same = r"ID|IDs|Code|Codes|OpenAPI|Raindrop.*|k|curl|fetch|UTC|TOML|INV-|JSON|English|test|default|numbers|js|auto"
        for part in ("try", "inspect", "many", "plan", "cluster", "codes"):
            page = self.open(part, locale="zh-CN")
            texts = page.evaluate(
                "[...document.querySelectorAll('h1, h2, h3, label, dt, th, button, caption, option, figcaption span,"
                " small, .muted, .badge, footer a')].map((one) => one.textContent.trim())"
            )
            names = r"decimal|hex|base\d+(url|-sorted)?|friendly|uuid7|typeid|string|number|range|text|namespace|invoice|typed"
            for text in texts:
                if re.fullmatch(rf"({same}|{names}|[\W\d]*|[\d.,]+/.)", text) or re.search("[一-鿿]", text):
                    continue
                # Presets are not translated.
                self.assertRegex(text, r"^[a-z][a-z0-9-]*$|^\d+$", f"{part}: {text!r} is not Chinese")
                self.assertIn(text, PRESETS, f"{part}: {text!r} is not Chinese")
            self.close(page)

    def test_pages_are_light(self):
        for path in ("/", "/docs"):
            loaded = {}
            context = self.browser.new_context()
            self.addCleanup(context.close)
            page = context.new_page()
            page.on("response", lambda answer: loaded.__setitem__(answer.url, len(answer.body())))
            page.goto(self.service.url + path, wait_until="networkidle")
            own = {url: size for url, size in loaded.items() if url.endswith(path) or "/console/" in url}
            self.assertGreater(len(own), 5)
            self.assertLess(sum(own.values()), MOST_BYTES, own)

    def test_a_service_that_stops_and_comes_back(self):
        with serving() as service:
            page = self.page(f"{service.url}/#try", expects_errors=True)
            expect(page.locator(".newest .bar")).to_be_visible()
            before = page.locator(".id.big").inner_text()
            service.stop()
            page.get_by_role("button", name="Get IDs").click()
            banner = page.locator(".banner")
            expect(banner).to_contain_text("The service does not answer")
            # The page is still of use, and asks less and less often.
            self.tab(page, "Inspect")
            expect(banner).to_contain_text("in 4 s")
            self.tab(page, "Try")
            service.start()
            expect(banner).to_be_empty()
            expect(page.locator(".id.big")).not_to_have_text(before)
            expect(page.locator(".newest .bar")).to_be_visible()

    def test_a_stop_is_noticed_by_a_page_that_asks_for_nothing(self):
        with serving() as service:
            page = self.page(f"{service.url}/#inspect", expects_errors=True)
            service.stop()
            expect(page.locator(".banner")).to_contain_text("The service does not answer")
            service.start()
            expect(page.locator(".banner")).to_be_empty()

    def test_a_token_is_asked_for_and_kept_in_memory_alone(self):
        with serving(tokens=token_file(permissions='["ids", "admin"]')) as service:
            page = self.page(service.url, expects_errors=True)
            expect(page.locator(".newest")).to_contain_text("No ID was claimed yet")
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(page.get_by_role("group", name="curl")).to_contain_text("Authorization: Bearer $TOKEN")
            page.get_by_role("button", name="Get IDs").click()
            dialog = page.get_by_role("dialog")
            self.assert_accessible(page, "the question for a token")
            dialog.get_by_label("Token").fill("raindrop_wrong")
            dialog.get_by_role("button", name="Use this token").click()
            # The service refuses the token, so the page asks for another one.
            expect(dialog.get_by_label("Token")).to_have_value("")
            dialog.get_by_label("Token").fill(TOKEN)
            page.keyboard.press("Enter")
            expect(page.locator(".newest .bar")).to_be_visible()
            kept = page.evaluate(KEPT)
            self.assertEqual(kept, '[{},{},""]')
            self.assertNotIn(TOKEN, page.url)
            self.assertNotIn(TOKEN, page.content())
            self.tab(page, "Inspect")
            page.get_by_role("textbox", name="IDs").fill("250317383905697792")
            expect(page.locator("p.id")).to_be_visible()

            self.tab(page, "Cluster")
            expect(page.get_by_role("region", name="Workers of default").locator("tr.this")).to_be_visible()

            page.get_by_role("button", name="Forget token").click()
            expect(page.get_by_role("button", name="Forget token")).to_be_hidden()
            self.tab(page, "Try")
            page.get_by_role("button", name="Get IDs").click()
            dialog.get_by_role("button", name="Cancel").click()
            expect(page.get_by_role("alert")).to_contain_text("token")

            page.goto(f"{service.url}/docs")
            dialog.get_by_label("Token").fill(TOKEN)
            page.keyboard.press("Enter")
            expect(page.locator("#id-code")).to_be_visible()
            self.assertEqual(page.evaluate(KEPT), '[{},{},""]')

    def change(self, method, path, **body):
        url = f"{self.admin}/codes/{path}?namespace=numbers"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        urllib.request.urlopen(request, timeout=30).close()

    def test_pictures_for_the_documentation(self):
        folder = pictures()
        for number in (2, 3):
            holder = f"10.0.0.{number + 6}:8080#orders-{number}"
            node = Service(self.service.folder, holder=holder).start()
            self.addCleanup(node.stop)
        self.change("PUT", "receipt", min_step=100, max_step=500, max="60000")
        self.change("PUT", "ticket", max="500000")
        self.change("POST", "ticket/raise", by="180000")
        # Some load, so that there is something to see: intervals have 10 s, and a forecast takes a minute.
        end = time.monotonic() + SECONDS_OF_LOAD
        while os.environ.get("UPDATE") and time.monotonic() < end:
            get(f"{self.service.url}/ids/order?n={random.randrange(1000, 10000)}")
            get(f"{self.service.url}/ids/receipt?namespace=numbers&n={random.randrange(10, 50)}")
            time.sleep(random.random())
        shots = {
            "try": ("one", {}), "live": ("one", {}), "plan": ("plan", {}),
            "cluster": ("cluster", {"viewport": {"width": 1100, "height": 1000}}), "codes": ("codes", {}), "docs": ("docs", {}),
            "inspect-dark": ("inspect", {"color_scheme": "dark"}),
            "try-phone": ("one", {"viewport": PHONE, "locale": "zh-CN", "color_scheme": "dark"}),
        }
        for name, (part, options) in shots.items():
            page = self.open(part, **{"viewport": {"width": 1100, "height": 900}, **options})
            for _ in range(30 if part == "one" else 0):
                before = page.locator(".id.big").inner_text()
                page.locator("form .main").click()
                expect(page.locator(".id.big")).not_to_have_text(before)
            if name == "live":
                page.get_by_role("button", name="One ID each second").click()
                expect(page.locator(".live li").nth(4)).to_be_visible()
            if name == "plan":
                page.get_by_role("separator", name="Border of Worker").press("ArrowRight")
                expect(page.locator(".facts")).to_contain_text("1,023")
            if part == "codes":
                page.get_by_role("button", name="New code").click()
                page.get_by_label("Code", exact=True).fill("order")
                page.get_by_role("button", name="Create").click()
                expect(page.locator("tr", has_text="order")).to_be_visible()
            if part == "codes" and os.environ.get("UPDATE"):
                expect(page.locator("tr", has_text="receipt").locator("td").nth(5)).to_have_text(re.compile(r"/son average [\d.]+/s$"))
            if part == "cluster":
                expect(page.locator(".spark.large").first).to_be_visible()
            # Ports differ from run to run.
            page.evaluate("document.querySelectorAll('.way code').forEach((one) => (one.textContent ="
                          " one.textContent.replaceAll(location.origin, 'http://127.0.0.1:8080')))")
            file = folder / f"console-{name}.png"
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=file, animations="disabled")
            self.assertLess(file.stat().st_size, MOST_BYTES_OF_A_PICTURE, file.name)
            self.close(page)


PRESETS = """raindrop js-safe twitter lingdu westid westid-qr yitter yitter-csharp yitter-js node
adnc-classic sonyflake sonyflake-v2 baidu-uid baidu-uid-default""".split()

"""What everybody may see: Try, Inspect, Plan and the API document."""

import json
import re
import urllib.request

from browser import PHONE, Browser, expect
from service import claimed, get, serving

PARTS = ("Try", "Inspect", "Plan")


def ids(service, path):
    return json.load(get(service.url + path))["ids"]


class Public(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(serving())

    def claimed(self):
        return claimed(self.service)

    def test_try_shows_an_id_of_its_own_code_at_once(self):
        before = self.claimed()
        page = self.page(self.service.url)
        expect(page.locator(".id.big")).to_have_text(re.compile(r"^\d{18,19}$"))
        expect(page.locator(".newest .legend li")).to_have_count(4)
        self.assertEqual(self.claimed() - before, 1)
        # The bits of the picture are the bits of the ID.
        shown = page.locator(".newest .bar rect").evaluate_all(
            "(all) => all.map((one) => Number(one.classList.contains('one'))).join('')"
        )
        self.assertEqual(int(shown, 2), int(page.locator(".id.big").inner_text()))

    def test_try_claims_nothing_of_another_code_until_asked(self):
        before = self.claimed()
        page = self.page(f"{self.service.url}/#try?code=order&n=100&k=10")
        expect(page.locator(".newest")).to_contain_text("No ID was claimed yet")
        self.assertEqual(self.claimed(), before)
        page.get_by_role("button", name="Get IDs").click()
        answer = json.loads(page.get_by_role("group", name="Answer").inner_text())
        self.assertEqual(len(answer["ids"]), 100)
        expect(page.locator(".id.big")).to_have_text(answer["ids"][-1])
        expect(page.get_by_role("img", name="100 IDs by id % 10")).to_be_visible()
        self.assertEqual(page.locator(".columns rect").count(), 10)
        self.assertEqual(self.claimed() - before, 100)

    def test_try_writes_the_request_for_programs(self):
        page = self.page(self.service.url)
        page.get_by_label("Code", exact=True).fill("invoice")
        page.get_by_label("How many").fill("3")
        page.get_by_label("Encoding").select_option("hex")
        url = f"{self.service.url}/ids/invoice?n=3&encoding=hex"
        expect(page.get_by_role("group", name="curl")).to_have_text(f"curl '{url}'")
        expect(page.get_by_role("group", name="link")).to_have_text(url)
        self.assertIn("#try?code=invoice&n=3&encoding=hex", page.url)
        fetched = page.get_by_role("group", name="fetch").inner_text()
        self.assertEqual(fetched, f'const answer = await (await fetch("{url}")).json();')
        page.get_by_text("Java, Go, Python, C#").click()
        for name in ("Java", "Go", "Python", "C#"):
            expect(page.get_by_role("group", name=name, exact=True)).to_contain_text(f'"{url}"')

    def test_the_request_in_python_is_what_the_service_answers(self):
        page = self.page(self.service.url)
        page.get_by_text("Java, Go, Python, C#").click()
        for format in ("string", "text"):
            page.get_by_label("Format").select_option(format)
            names = {"json": json, "urllib": urllib}
            exec(page.get_by_role("group", name="Python", exact=True).inner_text(), names)
            answer = names["answer"]
            id = answer["id"] if format == "string" else answer.strip()
            self.assertRegex(id, r"^\d{18,19}$")

    def test_try_with_a_prefix_and_plain_numbers(self):
        page = self.page(f"{self.service.url}/#try?code=invoice", expects_errors=True)
        page.get_by_role("button", name="Get IDs").click()
        expect(page.locator(".id.big")).to_have_text(re.compile(r"^INV-\d+$"))
        expect(page.locator(".newest")).to_contain_text("A plain number")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("img", name="1 IDs by id % 8")).to_be_visible()

    def test_an_error_of_the_service_is_shown_in_its_own_words(self):
        page = self.page(self.service.url, expects_errors=True)
        page.get_by_label("Code", exact=True).fill("not a code")
        page.get_by_role("button", name="Get IDs").click()
        expect(page.get_by_role("alert")).to_contain_text('"not a code"')

    def test_inspect_shows_every_encoding_as_the_service_reads_it(self):
        for namespace in ("default", "js"):
            id = ids(self.service, f"/ids/order?namespace={namespace}")[0]
            page = self.page(f"{self.service.url}/#inspect?ids={id}&namespace={namespace}")
            expect(page.locator("p.id")).to_have_text(id)
            rows = page.locator(".encodings tr")
            expect(rows).to_have_count(8)
            for row in rows.all():
                label, text = row.locator("th").inner_text(), row.locator("td").first.inner_text()
                name = label.split()[0]
                self.assertEqual(label.endswith("(case matters)"), name.startswith("base6"), label)
                path = f"/parse/{text}?encoding={name}&namespace={namespace}"
                self.assertEqual(json.load(get(self.service.url + path))["id"], id, name)
                # As the service writes it, too.
                parsed = json.load(get(f"{self.service.url}/parse/{id}?namespace={namespace}"))
                if name == "hex":
                    self.assertEqual(text, parsed["hex"])
            facts = page.locator(".facts")
            expect(facts).to_contain_text(parsed["timestamp"])
            expect(facts).to_contain_text("yes: below 2^53" if parsed["js_safe"] else "no: above 2^53")

    def test_inspect_finds_out_the_encoding_or_asks_for_it(self):
        id = ids(self.service, "/ids/order")[0]
        parsed = json.load(get(f"{self.service.url}/parse/{id}"))
        page = self.page(f"{self.service.url}/#inspect", expects_errors=True)
        page.get_by_role("textbox", name="IDs").fill(parsed["hex"].upper())
        expect(page.locator("p.id")).to_have_text(id)
        base62 = page.locator(".encodings tr", has_text="base62").locator("td").first.inner_text()
        page.get_by_role("textbox", name="IDs").fill(base62)
        expect(page.locator(".bad")).to_contain_text("choose the encoding")
        page.get_by_label("Encoding").select_option("base62")
        expect(page.locator("p.id")).to_have_text(id)
        self.assertIn(f"ids={base62}&encoding=base62", page.url)

    def test_inspect_lists_many_ids_and_says_what_is_none(self):
        mine = ids(self.service, "/ids/order?n=3")
        text = f"{mine[2]}, {mine[0]}\n\n{mine[1]} 9223372036854775808 what?"
        page = self.page(f"{self.service.url}/#inspect", expects_errors=True)
        page.get_by_role("textbox", name="IDs").fill(text)
        rows = page.get_by_role("region", name="IDs by time").locator("tbody tr")
        expect(rows).to_have_count(3)
        self.assertEqual(rows.locator("a").all_inner_texts(), mine)
        # All of one worker, so that there is no column for it.
        facts = page.locator(".facts")
        worker = json.load(get(f"{self.service.url}/parse/{mine[0]}"))["worker_id"]
        expect(facts.locator("div", has_text="Worker")).to_have_text(f"Worker{worker}")
        expect(page.locator("thead th")).to_have_text(["ID", "Time (UTC)", "Age", "Sequence"])
        bad = page.locator(".bad li")
        expect(bad).to_have_count(2)
        expect(bad.first).to_contain_text("4. 9223372036854775808")
        expect(bad.last).to_contain_text("5. what?")
        # The address is enough to see the same.
        again = self.page(page.url, expects_errors=True)
        expect(again.locator("tbody a")).to_have_count(3)
        again.locator("tbody a").first.click()
        expect(again.locator("p.id")).to_have_text(mine[0])
        again.go_back()
        expect(again.locator("tbody a")).to_have_count(3)

    def test_inspect_shows_workers_on_a_timeline(self):
        # 1, 2 and 2 of three instants.
        parts = ((1 << 34, 1), ((1 << 34) + 500, 2), ((1 << 34) + 1000, 2))
        numbers = [time << 22 | worker << 13 for time, worker in parts]
        page = self.page(f"{self.service.url}/#inspect?ids={','.join(map(str, numbers))}")
        line = page.locator(".timeline line")
        expect(line).to_have_count(3)
        self.assertEqual(line.evaluate_all("(all) => all.map((one) => Math.round(one.x1.baseVal.value))"), [1, 300, 599])
        self.assertEqual(line.evaluate_all("(all) => all.map((one) => one.getAttribute('class'))"), ["", "mark-0", "mark-0"])
        expect(page.locator("thead th")).to_have_text(["ID", "Time (UTC)", "Age", "Worker"])
        expect(page.locator(".mark-0")).to_have_count(4)

    def test_inspect_offers_layouts_in_which_the_time_is_plausible(self):
        page = self.page(f"{self.service.url}/#inspect?ids=1400000000000000000", expects_errors=True)
        expect(page.locator(".problem")).to_contain_text("future")
        guesses = page.locator(".guesses")
        expect(guesses).to_contain_text("layout discord 2025-07-30T06:20:10.742Z")
        expect(guesses).not_to_contain_text("namespace default")
        guesses.get_by_role("link", name="layout discord").click()
        expect(page.locator(".facts")).to_contain_text("2025-07-30")
        self.assertIn("layout=discord", page.url)
        expect(guesses).to_have_count(0)

    def test_the_usual_texts_of_the_service_have_their_chinese(self):
        page = self.page(f"{self.service.url}/#plan?timestamp_bits=55&worker_bits=10", expects_errors=True, locale="zh-CN")
        expect(page.get_by_role("alert")).to_contain_text("时间戳 55 + 数据中心 0 + 机器号 10")
        page.goto(f"{self.service.url}/#inspect?ids=9223372036854775807")
        expect(page.locator(".problem")).to_have_text("时间 2094-09-07T15:47:35.551Z 在未来")

    def test_inspect_takes_a_thousand_ids_and_no_more(self):
        many = ids(self.service, "/ids/order?n=1001")
        page = self.page(f"{self.service.url}/#inspect")
        page.get_by_role("textbox", name="IDs").fill("\n".join(many[:1000]))
        expect(page.locator("tbody a")).to_have_count(1000)
        page.get_by_role("textbox", name="IDs").fill("\n".join(many))
        expect(page.get_by_role("alert")).to_contain_text("at most 1,000")

    def test_inspect_reads_ids_of_other_systems(self):
        page = self.page(f"{self.service.url}/#inspect?ids=175928847299117063&layout=discord")
        expect(page.locator(".facts")).to_contain_text("2016-04-30T11:18:25.796Z")
        expect(page.locator(".legend li")).to_have_count(4)
        expect(page.locator(".encodings tr")).to_have_count(7)

    def test_plan_judges_a_layout(self):
        page = self.page(f"{self.service.url}/#plan", expects_errors=True)
        expect(page.locator(".facts").first).to_contain_text("4,096,000")
        slider = page.get_by_role("slider", name="Worker")
        self.assertEqual(slider.input_value(), "9")
        slider.press("ArrowRight")
        expect(page.locator(".facts").first).to_contain_text("1,023")
        expect(page.get_by_role("group", name="TOML")).to_contain_text("worker_bits = 10")
        expect(page).to_have_url(re.compile("worker_bits=10"))
        page.get_by_role("slider", name="Timestamp").press("End")
        expect(page.get_by_role("alert")).to_contain_text("must be at most 62 bits")
        page.get_by_label("Begin with").select_option("js-safe")
        expect(page.locator(".facts").first).to_contain_text("2059-11-04")
        expect(page.get_by_role("group", name="TOML")).to_contain_text('preset = "js-safe"')
        page.get_by_label("Unit of time").select_option("second")
        expect(page.locator(".facts").first).to_contain_text("in each second")

    def test_plan_keeps_its_result_in_sight_on_a_telephone(self):
        page = self.page(f"{self.service.url}/#plan", expects_errors=True, viewport=PHONE)
        gist = page.locator(".gist")
        expect(gist).to_have_text(re.compile(r"^4,096,000/s per node · 511 nodes · until 2094-09-07$"))
        slider = page.get_by_role("slider", name="Reserved")
        slider.scroll_into_view_if_needed()
        slider.press("ArrowRight")
        expect(gist).to_have_text(re.compile(r"^2,048,000/s"))
        expect(slider).to_be_in_viewport()
        expect(gist).to_be_in_viewport(ratio=1)
        page.get_by_role("slider", name="Timestamp").press("End")
        expect(gist).to_contain_text("must be at most 62 bits")

    def test_the_api_document_begins_with_an_id_and_sends(self):
        before = self.claimed()
        page = self.page(f"{self.service.url}/docs", expects_errors=True)
        section = page.locator("main section[id]").first
        expect(section).to_have_id("id-code")
        self.assertEqual(self.claimed(), before)
        section.get_by_role("button", name="Send").click()
        expect(section.get_by_role("group", name="Answer")).to_have_text(re.compile(r'^\{"id":"\d+"\}$'))
        self.assertEqual(self.claimed() - before, 1)
        section.get_by_label("GET").fill("/id/invoice")
        expect(section.get_by_role("group", name="curl")).to_have_text(f"curl '{self.service.url}/id/invoice'")
        page.keyboard.press("Enter")
        expect(section.get_by_role("group", name="Answer")).to_contain_text("INV-")
        # Another host is never asked.
        section.get_by_label("GET").fill("http://example.com/id/what?n=1")
        page.keyboard.press("Enter")
        expect(section.get_by_role("alert")).to_be_visible()

    def test_the_api_document_is_readable(self):
        page = self.page(f"{self.service.url}/docs")
        document = json.load(get(f"{self.service.url}/openapi.json"))
        expect(page.locator("main > .stack > section[id]")).to_have_count(len(document["paths"]))
        section = page.locator("#ids-code")
        for text in ("IDs in ascending order", "How many IDs", "invalid_count", "too_many_codes"):
            expect(section).to_contain_text(text)
        section.get_by_text("application/json", exact=True).first.click()
        expect(section.get_by_role("group", name="200 application/json").first).to_be_visible()
        self.assertNotIn("undefined", page.locator("body").inner_text())
        self.assertNotIn("[object", page.locator("body").inner_text())

    def test_the_links_lead_somewhere(self):
        page = self.page(self.service.url)
        for link in page.locator("footer a").all():
            self.assertEqual(get(self.service.url + link.get_attribute("href")).status, 200)

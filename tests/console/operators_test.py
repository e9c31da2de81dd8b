"""What operators see on their listener: Cluster and Codes, with two nodes on one store."""

import json
import re
import tempfile

from browser import Browser, expect
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

    def test_cluster_plots_what_this_node_did(self):
        page = self.page(f"{self.admin}/#cluster")
        section = page.locator("section", has=page.get_by_role("heading", name="default"))
        expect(section.locator(".spark")).to_have_count(4)
        get(f"{self.service.url}/ids/order?n=321")
        issued = section.locator(".spark", has_text="IDs issued")
        # Intervals of 10 s, asked for every 5 s.
        expect(issued.locator("polyline")).to_be_visible()
        expect(issued).to_contain_text(re.compile(r"[1-9][\d.,]*k? in ten minutes"))

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

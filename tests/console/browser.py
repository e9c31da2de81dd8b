"""A browser that notices what must not happen: errors, and requests to other hosts."""

import os
import pathlib
import tempfile
import unittest
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from missing import with_missing_routes

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--no-first-run"]
ROOT = pathlib.Path(__file__).parent.parent.parent
PATIENCE_MS = 30_000
# What a browser says of an answer that is an error, and of a service that is away.
ANSWERED = "Failed to load resource"

expect.set_options(timeout=PATIENCE_MS)


def pictures():
    """Where screenshots go: to the documentation only if they are to be updated."""
    if os.environ.get("UPDATE"):
        folder = ROOT / "docs" / "images"
        folder.mkdir(exist_ok=True)
        return folder
    kept = os.environ.get("PICTURES")
    return pathlib.Path(kept or tempfile.mkdtemp(prefix="raindrop-pictures-"))


class Browser(unittest.TestCase):
    """One browser for all tests of a class; each page is watched."""

    @classmethod
    def setUpClass(cls):
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = playwright.chromium.launch(
            executable_path=os.environ["CHROMIUM"], args=FLAGS, headless=True
        )
        cls.addClassCleanup(cls.browser.close)

    def page(self, service, path="/", errors_are_answered=False, **options):
        """Opens a page, and holds it to its promises when the test ends."""
        given = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", "timezone_id": "UTC"}
        context = self.browser.new_context(**{**given, **options})
        self.addCleanup(context.close)
        context.set_default_timeout(PATIENCE_MS)
        # Before any script of the page runs.
        context.add_init_script(
            "window.violations = [];"
            "document.addEventListener('securitypolicyviolation', (event) =>"
            " window.violations.push(event.violatedDirective + ' ' + event.blockedURI));"
        )
        page = context.new_page()
        with_missing_routes(page)
        told, asked = [], []
        page.on("console", lambda line: told.append(line) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.thrown.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        self.thrown = []
        page.goto(service.url + path)
        self.addCleanup(self.hold, page, told, asked, service, errors_are_answered)
        return page

    def hold(self, page, told, asked, service, errors_are_answered):
        own = urlsplit(service.url).netloc
        others = [url for url in asked if urlsplit(url).netloc != own and urlsplit(url).scheme not in ("data", "blob")]
        self.assertEqual(others, [], "requests to other hosts")
        self.assertEqual(self.thrown, [], "errors of scripts")
        lines = [line.text for line in told if not (errors_are_answered and ANSWERED in line.text)]
        self.assertEqual(lines, [], "the console of the browser")
        self.assertEqual(page.evaluate("window.violations"), [], "violations of the policy")

    def tab(self, page, name):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")

    def assert_accessible(self, page, what):
        # A transition would be measured half way.
        page.wait_for_timeout(300)
        found = Axe().run(page).response["violations"]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]][:4]) for one in found]
        self.assertEqual(told, [], f"axe: {what}")

    def assert_fits(self, page, what):
        """The page itself cannot be moved sideways."""
        wide = page.evaluate(
            "[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right"
            " > innerWidth + 1 && !one.closest('.scroll, pre, .tabs, .way, .away, .skip'))"
            ".map((one) => one.outerHTML.slice(0, 120))"
        )
        self.assertEqual(wide, [], what)
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.assertLessEqual(width, 0, what)

"""A browser that notices what must not happen: errors, and requests to other hosts."""

import os
import pathlib
import tempfile
import unittest
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--no-first-run"]
ROOT = pathlib.Path(__file__).parent.parent.parent
PATIENCE_MS = 30_000
# The browser's message about an answer that is an error, and about a service that is away.
ANSWERED = "Failed to load resource"
DESK = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 780}
WIDE = {"width": 1440, "height": 900}

expect.set_options(timeout=PATIENCE_MS)


def pictures():
    """Where screenshots go: to the documentation only if they are to be updated."""
    if not os.environ.get("UPDATE"):
        return pathlib.Path(tempfile.mkdtemp(prefix="raindrop-pictures-"))
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    return folder


class Watched:
    """What a page said and asked for."""

    def __init__(self, page):
        self.said, self.thrown, self.asked = [], [], []
        page.on("console", lambda line: line.type in ("error", "warning") and self.said.append(line.text))
        page.on("pageerror", lambda error: self.thrown.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))


class Browser(unittest.TestCase):
    """One browser for all tests of a class. Each page is held to its promises when its test ends."""

    @classmethod
    def setUpClass(cls):
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        launched = {"executable_path": os.environ["CHROMIUM"], "args": FLAGS, "headless": True}
        cls.browser = playwright.chromium.launch(**launched)
        cls.addClassCleanup(cls.browser.close)

    def page(self, url, expects_errors=False, **options):
        """Opens a page; with `expects_errors`, answers that are errors are part of the test."""
        usual = {"viewport": DESK, "locale": "en-GB", "timezone_id": "UTC"}
        context = self.browser.new_context(**{**usual, **options})
        self.addCleanup(context.close)
        context.set_default_timeout(PATIENCE_MS)
        # Before any script of the page runs.
        context.add_init_script(
            "window.violations = [];"
            "document.addEventListener('securitypolicyviolation', (event) =>"
            " window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));"
        )
        page = context.new_page()
        watched = Watched(page)
        page.goto(url)
        self.addCleanup(self.close, page)
        self.open_pages[page] = (watched, urlsplit(url).netloc, expects_errors)
        return page

    def setUp(self):
        self.open_pages = {}

    def close(self, page):
        """Closes a page, if it is open, and holds it to its promises."""
        if page not in self.open_pages:
            return
        watched, own, expects_errors = self.open_pages.pop(page)
        violations = page.evaluate("window.violations")
        page.context.close()

        def is_elsewhere(url):
            return urlsplit(url).netloc != own and urlsplit(url).scheme not in ("data", "blob")

        self.assertEqual([*filter(is_elsewhere, watched.asked)], [], "requests to other hosts")
        self.assertEqual(watched.thrown, [], "errors of scripts")
        said = [line for line in watched.said if not (expects_errors and ANSWERED in line)]
        self.assertEqual(said, [], "errors and warnings in the browser's console")
        self.assertEqual(violations, [], "violations of the policy")

    def tab(self, page, name):
        tab = page.get_by_role("tab", name=name, exact=True)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")

    def assert_accessible(self, page, what):
        # A transition would be measured half way.
        page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished))")
        found = Axe().run(page).response["violations"]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]][:4]) for one in found]
        self.assertEqual(told, [], f"axe: {what}")

    def assert_fits(self, page, what):
        """The page itself cannot be moved sideways; what is wide scrolls in a frame of its own."""
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.assertLessEqual(wide, 0, what)
        outside = page.evaluate(
            "[...document.querySelectorAll('body *')].filter((one) =>"
            " one.getBoundingClientRect().right > innerWidth + 1"
            " && !one.closest('.scroll, pre, .tabs, .way code, .away'))"
            ".map((one) => one.outerHTML.slice(0, 120))"
        )
        self.assertEqual(outside, [], what)

"""Whether each link in a folder of HTML pages leads to a file of it, and to a place in that file."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.places, self.targets = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.add(attributes.get("id"))
        target = attributes.get("href") or attributes.get("src")
        # The base of a page that a server shows under any address.
        if target and tag != "base":
            self.targets.add(target)


def broken(folder):
    """Each link that leads nowhere, with its page."""
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder}: no page"
    for path, page in pages.items():
        # mdBook writes the page for unknown addresses, whose links begin at the root.
        if path.name == "404.html":
            continue
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if file.is_dir():
                file /= "index.html"
            place = unquote(parts.fragment)
            if not file.exists():
                yield f"{path.relative_to(folder.resolve())}: {target}: there is no such file"
            elif place and file in pages and place not in pages[file].places:
                yield f"{path.relative_to(folder.resolve())}: {target}: the page has no such place"


faults = list(broken(Path(sys.argv[1])))
print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
sys.exit(bool(faults))

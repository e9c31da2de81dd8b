"""A preprocessor of mdBook: links to what the book does not show lead to the repository. That is each file
outside of docs/, and each folder."""

import json
import os
import posixpath
import re
import sys

# The target of a link, unless it names a scheme or a place in the same page.
LINK = re.compile(r"(?<=\]\()[^)#:\s]+")


def target(link, page, repository):
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return link if path.startswith("docs/") and not os.path.isdir(path) else f"{repository}/{path}"


def rewrite(items, repository):
    for item in items:
        # Else a separator, or the title of a part.
        if isinstance(item, dict) and "Chapter" in item:
            chapter = item["Chapter"]
            page = chapter["path"]
            chapter["content"] = LINK.sub(lambda link: target(link[0], page, repository), chapter["content"])
            rewrite(chapter["sub_items"], repository)


if sys.argv[1:2] == ["supports"]:
    sys.exit()
context, book = json.load(sys.stdin)
rewrite(book["items"], context["config"]["output"]["html"]["git-repository-url"])
json.dump(book, sys.stdout)

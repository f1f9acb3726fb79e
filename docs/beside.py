#!/usr/bin/env python3
"""A preprocessor of mdBook: of what chapters point to outside of docs/, pictures become part of the page, and links to
other files the files' names, since a book has nothing beside it."""

import base64
import json
import os
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((\.\./[^)\s]*)\)")
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def beside(match):
    is_picture, text, target = match.groups()
    path = pathlib.Path(os.path.normpath(DOCS / target.split("#")[0]))
    if is_picture:
        data = base64.b64encode(path.read_bytes()).decode()
        return f"![{text}](data:{TYPES[path.suffix]};base64,{data})"
    name = path.relative_to(DOCS.parent).as_posix()
    return f"`{name}`" if text == name or text.endswith(path.name) else f"{text} (`{name}`)"


def rewrite(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            chapter["content"] = LINK.sub(beside, chapter["content"])
            rewrite(chapter["sub_items"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2:] == ["html"] else 1)
    _, book = json.load(sys.stdin)
    # `sections` up to mdBook 0.4, `items` from 0.5 on.
    rewrite(book.get("items", book.get("sections")))
    json.dump(book, sys.stdout)

"""Reading a page of a run in tests: its words, its tables, its drawings."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from xml.etree import ElementTree as ET

HOSTILE = "<script>alert('&')</script>"


def plain(page: str) -> str:
    """The words of a page, without marks, spaces made even."""
    page = re.sub(r"<(style|title|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def without_script(page: str) -> str:
    """The page without the one script it may hold, whose hash its policy names."""
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)[-1:]
    digest = base64.b64encode(hashlib.sha256(html.unescape(script).encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(page)
    return page.replace(f"<script>{script}</script>", "")


def drawings(page: str, css: str) -> list[ET.Element]:
    found = [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]
    return [drawing for drawing in found if drawing.get("class") == css]


def rows(page: str, section: str) -> list[list[str]]:
    """The cells' words of every table row of a section."""
    inside = page.split(f'<section id="{section}">')[1].split("</section>")[0]
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", inside, flags=re.DOTALL)
    return [[plain(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)] for row in found]

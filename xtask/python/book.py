"""Builds the book with mdBook, and checks its site in `target/book`.

`cargo xtask ci --only book` runs it. The site must have every page of the summary and every other
file of `docs`. Its links must lead to files and anchors that exist, and its search must know every
page. Addresses of other sites are not tried. `book.py --probe` fails if mdBook is missing.

The line `repository` in the workspace's Cargo.toml becomes the link to the sources on each page.
"""

import functools
import json
import os
import posixpath
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "target/book"

# A word, and a page on which the search must find it.
WORD, PAGE = "aiger", "showcases/circuits.html"

# A site without faults, and changes that each make one: a file, its old and new text, the fault.
SOUND = {
    "index.html": '<a href="sub/a.html#two%20b">A</a> <a href="https://example.org/none">B</a>',
    "sub/a.html": '<p id="two b"><img src="a.svg"><a href="../index.html">Up</a><a href="#">0</a>',
    "sub/a.svg": "",
    "searchindex.js": r"""f(JSON.parse('{"doc_urls": ["index.html#\'", "sub/a.html#"], "index":
        {"index": {"body": {"root": {"i": {"t": {"docs": {"1": {}}}}}}}}}'));""",
}
SPOILT = [
    ("index.html", "sub/a", "sub/b", "index.html: sub/b.html#two%20b: no file sub/b.html"),
    ("index.html", "two", "one", "index.html: sub/a.html#one%20b: no such anchor"),
    ("sub/a.html", "a.svg", "/a.svg", "sub/a.html: /a.svg: expected a relative link"),
    ("sub/a.html", "..", "../..", "sub/a.html: ../../index.html: no file ../index.html"),
    ("sub/a.svg", None, None, "sub/a.html: a.svg: no file sub/a.svg"),
    ("sub/a.html", None, None, "sub/a.html is missing"),
    ("searchindex.js", "sub/a", "sub/b", "the search does not know sub/a.html"),
    ("searchindex.js", '"t"', '"s"', "the search does not find `it` in sub/a.html"),
    ("searchindex.js", None, None, "searchindex.js is missing"),
]


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links = {"", "top"}, []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "base":
                self.links.append(value)


def main() -> None:
    check_the_checks()
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    repository = manifest["workspace"]["package"]["repository"]
    sources = {"MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL": repository} if repository else {}
    subprocess.run(["mdbook", "build", DOCS], env=os.environ | sources, check=True)
    site = {path.relative_to(SITE).as_posix(): path for path in SITE.rglob("*") if path.is_file()}
    is_text = re.compile(r".*\.html|searchindex\.js").fullmatch
    texts = {name: path.read_text("utf-8") if is_text(name) else "" for name, path in site.items()}
    pages = re.findall(r"\]\((.+)\.md\)", (DOCS / "SUMMARY.md").read_text(encoding="utf-8"))
    pages = [f"{page}.html" for page in pages]
    others = [path for path in DOCS.rglob("*.*") if path.is_file() and path.suffix != ".md"]
    found = faults(texts, pages, [path.relative_to(DOCS).as_posix() for path in others], WORD, PAGE)
    if found:
        sys.exit("\n".join(found))
    links = sum(len(parse(text).links) for name, text in texts.items() if name.endswith(".html"))
    print(f"-- {len(pages)} pages, {links} links: {SITE / 'index.html'}")


def faults(
    site: dict[str, str], pages: list[str], others: list[str], word: str, page: str
) -> list[str]:
    """Returns the faults of a site: its files by name, with the texts of those that are read."""
    found = [f"{name} is missing" for name in [*pages, *others] if name not in site]
    for name, text in site.items():
        if name.endswith(".html"):
            links = sorted(set(parse(text).links))
            reasons = ((link, fault_of(site, name, link)) for link in links)
            found += [f"{name}: {link}: {reason}" for link, reason in reasons if reason]
    if "searchindex.js" not in site:
        return [*found, "searchindex.js is missing"]
    (quoted,) = re.findall(r"JSON\.parse\('(.*)'\)", site["searchindex.js"], re.DOTALL)
    index = json.loads(re.sub(r"\\(.)", r"\1", quoted))
    urls = [url.split("#")[0] for url in index["doc_urls"]]
    found += [f"the search does not know {name}" for name in pages if name not in urls]
    node = index["index"]["index"]["body"]["root"]
    for letter in word:
        node = node.get(letter, {})
    if page not in [urls[int(number)] for number in node.get("docs", {})]:
        found.append(f"the search does not find `{word}` in {page}")
    return found


def fault_of(site: dict[str, str], page: str, link: str) -> str | None:
    """Returns the reason why a link of a page leads nowhere, or `None` if it does not."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    if parts.path.startswith("/"):
        return "expected a relative link"
    path = posixpath.join(posixpath.dirname(page), unquote(parts.path)) if parts.path else page
    target = posixpath.normpath(path)
    if target not in site:
        return f"no file {target}"
    is_page = target.endswith(".html")
    known = not is_page or unquote(parts.fragment) in parse(site[target]).anchors
    return None if known else "no such anchor"


@functools.cache
def parse(text: str) -> Page:
    return Page(text)


def check_the_checks() -> None:
    """Checks that the sound site has no fault, and that each spoilt one has its own."""
    rules = (["index.html", "sub/a.html"], ["sub/a.svg"], "it", "sub/a.html")
    assert faults(SOUND, *rules) == [], faults(SOUND, *rules)
    for name, old, new, fault in SPOILT:
        site = SOUND | {name: SOUND[name].replace(old or "", new or "")}
        if old is None:
            del site[name]
        assert fault in faults(site, *rules), f"expected {fault}, got {faults(site, *rules)}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--probe"]:
        sys.exit(subprocess.run(["mdbook", "--version"], check=False).returncode)
    main()

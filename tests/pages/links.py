"""The links of the README and the documentation: files, headings, and addresses in the network.

python -m tests.pages.links [--files-only] [--seconds 60]

Files and headings are looked for in the repository, which `make test` does as well. Addresses are
asked for, all at once and for a limited time: this needs a network, and says so where there is
none. The exit status is 1 where a link leads nowhere, and 2 where addresses could not be asked.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"(?<!\\)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.M)
BARE = re.compile(r"(?<![(\w])https?://[^\s)>\"'`\]]+")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
TITLE = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.M)
MADE = ("api/",)  # folders of pages that `make docs` writes
WAIT = 15  # seconds for one address


@dataclass(frozen=True, slots=True)
class Link:
    """Where a page leads: a file, `file#heading`, `#heading` or an address."""

    page: Path
    line: int
    target: str

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}: {self.target}"

    @property
    def is_address(self) -> bool:
        """Whether it leads into the network."""
        return self.target.startswith(("http://", "https://"))


def pages() -> list[Path]:
    """Every page that people read, with what lies beside the code."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "adjoint").rglob("*.md")]
    found += [*(ROOT / "examples").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    built = ROOT / "docs" / "_build"
    return sorted(page for page in found if not page.is_relative_to(built))


def without_code(text: str) -> str:
    """A page with its code left out: only lines remain, so that they are counted as before."""
    text = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    return CODE.sub("", text)


def links_of(page: Path) -> list[Link]:
    """The links of a page, each with its line."""
    text = without_code(page.read_text(encoding="utf-8"))
    found = {
        (match.start(), match[match.lastindex or 0])
        for pattern in (LINK, REFERENCE, BARE)
        for match in pattern.finditer(text)
    }
    return [Link(page, text.count("\n", 0, at) + 1, target) for at, target in sorted(found)]


def headings(page: Path) -> set[str]:
    """What a page's headings are called in links.

    >>> sorted(headings(ROOT / "docs" / "profiling.md"))[0]
    'memory'
    """
    titles = TITLE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    names: set[str] = set()
    for title in titles:
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower())
        name, again = words.replace(" ", "-"), 1
        while name in names:
            name, again = f"{words.replace(' ', '-')}-{again}", again + 1
        names.add(name)
    return names


def lost_in_the_repository(links: Sequence[Link]) -> list[str]:
    """Those that lead to no file or no heading, with what is missing."""
    lost = []
    for link in links:
        if link.is_address or link.target.startswith(("mailto:", *MADE)):
            continue
        path, _, heading = link.target.partition("#")
        file = (link.page.parent / path).resolve() if path else link.page
        if not file.exists():
            lost.append(f"{link}: there is no such file")
        elif heading and file.suffix == ".md" and heading not in headings(file):
            lost.append(f"{link}: there is no such heading")
    return lost


# -- addresses ----------------------------------------------------------------------------------


class NoAnswer(Exception):
    """Nothing was reached: the address is gone, or there is no network."""


def refusal(address: str) -> str:
    """Why an address has no page; nothing where it has one."""
    about = {"User-Agent": "Mozilla/5.0 (a check of links)", "Accept": "*/*"}
    said = ""
    for method in ("HEAD", "GET"):  # not every server answers the first
        request = urllib.request.Request(address.partition("#")[0], headers=about, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT):
                return ""
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 429):  # there, but not for programs
                return ""
            said = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{error}") from None
    return said


def lost_in_the_network(addresses: Iterable[str], seconds: float) -> dict[str, str]:
    """The addresses that lead nowhere, with why; `NoAnswer` where none of them was reached."""
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=16)
    asked = {pool.submit(refusal, address): address for address in sorted(set(addresses))}
    concurrent.futures.wait(asked, timeout=seconds)
    lost, reached = {}, not asked
    for future, address in asked.items():
        error = future.exception() if future.done() else NoAnswer(f"none within {seconds:g} s")
        if isinstance(error, NoAnswer):
            lost[address] = f"no answer: {error}"
        elif error is not None:
            raise error
        else:
            reached = True
            lost |= {address: future.result()} if future.result() else {}
    pool.shutdown(wait=False, cancel_futures=True)
    if not reached:
        raise NoAnswer("; ".join(f"{address} ({why})" for address, why in lost.items()))
    return lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what leads nowhere; 1 if anything does, 2 if addresses could not be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files-only", action="store_true", help="ask for no address")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all addresses together")
    chosen = parser.parse_args(arguments)
    links = [link for page in pages() for link in links_of(page)]
    addresses = [link for link in links if link.is_address]
    lost = lost_in_the_repository(links)
    status = 0
    if not chosen.files_only:
        try:
            gone = lost_in_the_network((link.target for link in addresses), chosen.seconds)
            lost += [f"{link}: {gone[link.target]}" for link in addresses if link.target in gone]
        except NoAnswer as error:
            print(f"links: no network, so that no address was checked: {error}", file=sys.stderr)
            status = 2
    for line in lost:
        print(line)
    inside, outside = len(links) - len(addresses), len(addresses)
    asked = "not asked" if chosen.files_only or status else "asked"
    print(f"links: {inside} in the repository, {outside} {asked}; {len(lost)} lead nowhere")
    return 1 if lost else status


if __name__ == "__main__":
    raise SystemExit(main())

"""The digits page in a real browser without a window: it classifies, and its training learns.

python tools/check_page.py
"""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000", "--dump-dom"]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def checked(browser: str, folder: Path) -> dict[str, Any]:
    """What the page found out when it was asked to check itself."""
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/index.html#check"
        done = subprocess.run(
            [browser, *FLAGS, address], capture_output=True, text=True, timeout=120, check=False
        )
        server.shutdown()
    mark = re.search(r'data-checked="([^"]*)"', done.stdout)
    if mark is None:
        raise SystemExit(f"the page did not finish:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(html.unescape(mark[1]))
    return answer


def main() -> int:
    """Build the page, look at it; the exit status."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no browser: install chromium (apt install chromium, or npx playwright install)")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        built = [sys.executable, str(ROOT / "examples" / "export_page.py"), folder]
        subprocess.run(built, check=True)
        answers = checked(browser, Path(folder))
    print(answers)
    return 0 if answers["digit"] == 1 and answers["last"] < answers["first"] / 2 else 1


if __name__ == "__main__":
    sys.exit(main())

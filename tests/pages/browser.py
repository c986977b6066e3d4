"""A page in a headless Chromium: it is served here, and says itself what it found."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60  # seconds that a page may take
MISSING = (
    "pages: no Chromium found. Install one from your distribution's packages, "
    "`apt install chromium` or `dnf install chromium`, or name it in CHROMIUM."
)
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")


def find_browser() -> str | None:
    """The browser there is."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for n in NAMES if (found := shutil.which(n))), None)


def ask(browser: str, page: str, question: str) -> dict[str, Any]:
    """Open a page and run a script in it, whose promise gives the answer.

    Errors on the console are in the answer under "errors".
    """
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    watching = (
        "<script>window.errors=[];addEventListener('error',e=>errors.push(String(e.message)));"
        "addEventListener('unhandledrejection',e=>errors.push(String(e.reason)));"
        "const said=console.error;console.error=(...a)=>{errors.push(a.join(' '));said(...a)};"
        "</script>"
    )
    asking = (
        "<script>(async()=>{let answer={};try{answer=await (async()=>{" + question + "})()}"
        "catch(e){errors.push(String(e&&e.stack||e))}answer.errors=errors;"
        "await fetch('/answer',{method:'POST',body:JSON.stringify(answer)})})()</script>"
    )
    text = page.replace("<head>", "<head>" + watching, 1).replace("</body>", asking + "</body>", 1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode() if self.path == "/" else b""
            self.send_response(200 if body else 204)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quietly."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [browser, *OPTIONS, "--window-size=1400,900", f"--user-data-dir={home}",
             f"http://127.0.0.1:{server.server_port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise SystemExit(f"pages: the browser did not answer within {PATIENCE} s") from None
        finally:
            process.terminate()
            process.wait()
            server.shutdown()


def screenshot(browser: str, page: Path, picture: Path) -> None:
    """A picture of a page."""
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(
            [browser, *OPTIONS, "--window-size=1400,900", f"--user-data-dir={home}",
             f"--screenshot={picture}", "--virtual-time-budget=3000", page.resolve().as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip
    if not picture.is_file():  # the browser says nothing of a place that it cannot write to
        raise FileNotFoundError(f"the browser has written no {picture}")

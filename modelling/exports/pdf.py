"""Print an HTML document to PDF with a browser on the server, without network access."""

import logging
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from modelling.exports.points import ExportError

log = logging.getLogger("concord.exporting")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PRINT_SECONDS = 120.0
OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--proxy-server=http://127.0.0.1:9",  # the document requests nothing; if it did, nothing would be reached
    "--no-first-run",
    "--no-pdf-header-footer",
)


def has_browser() -> bool:
    return _browser() is not None


def find_browser() -> str:
    """The path of the browser; ExportError where there is none."""
    browser = _browser()
    if browser is None:
        raise ExportError(
            _("A PDF needs Chromium or Chrome on the server, and neither is installed. Download the HTML file instead.")
        )
    return browser


def _browser() -> str | None:
    names = [settings.PDF_BROWSER] if settings.PDF_BROWSER else BROWSERS
    return next((path for name in names if (path := shutil.which(name))), None)


def print_to_pdf(html: bytes) -> bytes:
    """The document as PDF; ExportError if the browser fails or takes too long."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="concord-pdf-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_bytes(html)
        command = [browser, *OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={target}"]
        if os.geteuid() == 0:  # as root, Chromium starts only without its sandbox
            command.append("--no-sandbox")
        if not _run([*command, source.as_uri()]) or not target.is_file():
            raise ExportError(_("The browser could not print the report. Download the HTML file and print it."))
        return target.read_bytes()


def _run(command: list[str]) -> bool:
    """Run the browser in its own process group, which is killed afterwards; return whether it succeeded."""
    process = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _stdout, errors = process.communicate(timeout=PRINT_SECONDS)
    except subprocess.TimeoutExpired:
        log.warning("the browser took too long to print a report")
        return False
    else:
        if process.returncode:
            log.warning("the browser failed to print a report: %s", errors[-500:].decode(errors="replace"))
        return process.returncode == 0
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

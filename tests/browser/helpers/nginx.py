"""The server profile behind a real nginx with the shipped configuration, on loopback with a self-signed certificate."""

import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load.installation import ROOT, Installation, die_with_parent, free_port
from benchmarks.load.servers import RedisServer
from benchmarks.load.waiting import wait_until
from tests.browser.helpers.remote_server import RemoteServer, make_certificate, require

SITE = ROOT / "deploy" / "nginx.conf"
SECONDS = 300
MAIN = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    include {types};
    access_log off;
    {temporary}
    include {folder}/site.conf;
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def find_nginx() -> str | None:
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def adapt_site(text: str, changes: dict[str, str]) -> str:
    """Replace parts of the shipped file; each must occur, so that a renamed directive cannot escape the test."""
    text = re.sub(r"^ *listen \[::\].*\n", "", text, flags=re.MULTILINE)
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


class ProxiedServer(RemoteServer):
    """Concord as the unit files start it, reached through nginx at `address`."""

    def __init__(self, folder: Path, database_url: str, redis: RedisServer) -> None:
        super().__init__(folder, database_url, redis)
        self.http_port, self.https_port = free_port(), free_port()

    @property
    def address(self) -> str:
        return f"https://localhost:{self.https_port}"

    def environment(self) -> dict[str, str]:
        proxy = {"TRUSTED_PROXIES": "1", "STATIC_ROOT": str(self.folder / "staticfiles")}
        hosts = f"localhost,localhost:{self.https_port},127.0.0.1"  # the last one for the health check of `start`
        return super().environment() | proxy | {"ALLOWED_HOSTS": hosts}

    @property
    def files_of_nginx(self) -> Path:
        """A copy of the static files, so that a test can remove some for nginx alone."""
        return self.folder / "nginx-static"

    is_ready = Installation.is_ready

    @contextmanager
    def proxying(self) -> Iterator[None]:
        """Run nginx with the shipped configuration, its addresses and folders replaced."""
        nginx = find_nginx()
        require(nginx, "nginx")
        key, certificate = make_certificate(self.folder)
        shutil.copytree(self.folder / "staticfiles", self.files_of_nginx)
        changes = {
            "server 127.0.0.1:8000;": f"server 127.0.0.1:{self.port};",
            "listen 80": f"listen 127.0.0.1:{self.http_port}",
            "listen 443": f"listen 127.0.0.1:{self.https_port}",
            "https://study.example.org$request_uri": f"{self.address}$request_uri",
            "/etc/letsencrypt/live/study.example.org/fullchain.pem": str(certificate),
            "/etc/letsencrypt/live/study.example.org/privkey.pem": str(key),
            "study.example.org": "localhost",
            "/var/cache/concord/static/": f"{self.files_of_nginx}/",
            "client_header_timeout 10s": "client_header_timeout 1s",
        }
        (self.folder / "site.conf").write_text(adapt_site(SITE.read_text(), changes))
        main = MAIN.format(
            user="user root;" if os.geteuid() == 0 else "",
            folder=self.folder,
            types="/etc/nginx/mime.types",
            temporary=" ".join(f"{name}_temp_path {self.folder}/{name};" for name in TEMPORARY),
        )
        (self.folder / "nginx.conf").write_text(main)
        command = [str(nginx), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        process = subprocess.Popen(command, preexec_fn=die_with_parent, stderr=subprocess.PIPE)
        try:
            wait_until(lambda: self.answers(process), SECONDS, "nginx did not answer")
            yield
        finally:
            process.terminate()
            process.communicate()

    def answers(self, process: "subprocess.Popen[bytes]") -> bool:
        if process.poll() is not None:
            raise RuntimeError(process.communicate()[1].decode())
        try:
            urllib.request.urlopen(f"{self.address}/healthz", timeout=5, context=ssl._create_unverified_context())
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

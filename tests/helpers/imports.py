"""Import files: written to a folder, or uploaded on a project's import page."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from annotation.models import Project


def write(folder: Path, content: bytes | str) -> Path:
    path = folder / "a file with any name"
    path.write_bytes(encode(content))
    return path


def upload(
    client: Client, project: Project, kind: str, content: bytes | str, name: str = "any name", **headers: str
) -> Any:
    """Upload a file of items or judgements."""
    file = SimpleUploadedFile(name, encode(content))
    return client.post(f"/projects/{project.slug}/{kind}/import/", {"file": file}, **headers)


def pending_files() -> list[Path]:
    """The uploads that wait for their confirmation."""
    folder = settings.DATA_DIR / "imports"
    return list(folder.iterdir()) if folder.exists() else []


def encode(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content

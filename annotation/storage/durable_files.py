"""Crash-safe file writes: write under a temporary name, fsync, rename. Needs no Django settings."""

import os
from collections.abc import Callable
from pathlib import Path


def write_durably(
    path: Path, content: bytes, *, replace: bool = True, on_step: Callable[[str], None] = lambda step: None
) -> None:
    """Write a file that only its owner can read; with `replace=False` an existing file is kept.

    `on_step` is called before each step, so that drills can interrupt it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            on_step("write_tmp")
            file.write(content)
            file.flush()
            on_step("fsync")
            os.fsync(file.fileno())
        on_step("rename")
        publish(draft, path, replace=replace)
    finally:
        draft.unlink(missing_ok=True)


def publish(draft: Path, path: Path, *, replace: bool = True) -> None:
    """Rename a complete file or folder to its final name; syncing the parent lets the rename survive a power cut."""
    if replace:
        draft.rename(path)
    else:
        try:
            os.link(draft, path)  # unlike rename, fails if the name is taken
        except FileExistsError:
            return
    sync(path.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

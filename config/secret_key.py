"""The data folder and the keys of this installation, which only their owner can read."""

import base64
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from annotation.storage.durable_files import write_durably

KEY_FILE, CHECKPOINT_KEY_FILE = "secret_key", "checkpoint_key"
OUR_FILES = (KEY_FILE, "concord.sqlite3", "snapshots")


def make_private(folder: Path) -> None:
    """Create the data folder, or close an existing one to other users (mode 700).

    A folder that has the sticky bit, another owner or other contents is shared on purpose and is left unchanged.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    is_ours = any((folder / name).exists() for name in OUR_FILES) or not any(folder.iterdir())
    if is_ours and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX and found.st_mode & 0o077:
        folder.chmod(0o700)


def secret_key(data_dir: Path) -> str:
    """SECRET_KEY, or the key in `data_dir`, created if missing. Simultaneous first starts agree on one key."""
    if key := os.environ.get("SECRET_KEY"):
        return key
    return _read_or_create(data_dir / KEY_FILE, lambda: secrets.token_urlsafe(64))


def checkpoint_key(data_dir: Path) -> str:
    """CHECKPOINT_KEY, or the key in CHECKPOINT_KEY_FILE or `data_dir`: the seed of an Ed25519 key in base64."""
    key = os.environ.get("CHECKPOINT_KEY")
    if not key:
        path = Path(os.environ.get("CHECKPOINT_KEY_FILE") or data_dir / CHECKPOINT_KEY_FILE)
        key = _read_or_create(path, lambda: base64.b64encode(secrets.token_bytes(32)).decode("ascii"))
    try:
        valid = len(base64.b64decode(key, validate=True)) == 32
    except ValueError:
        valid = False
    if not valid:
        raise ImproperlyConfigured(
            "The checkpoint key must be 32 bytes in base64, as printed by `openssl rand -base64 32`."
        )
    return key


def _read_or_create(path: Path, create: Callable[[], str]) -> str:
    try:
        return _read(path)
    except FileNotFoundError:
        write_durably(path, create().encode("ascii"), replace=False)
        return _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()

"""The secret key of this install: made on first start, kept in a file that only its owner reads."""

import os
import secrets
from pathlib import Path


def secret_key(data_dir: Path) -> str:
    """The key in `data_dir`, made first if there is none. Two first starts at once agree on one key."""
    if given := os.environ.get("SECRET_KEY"):
        return given
    path = data_dir / "secret_key"
    try:
        return _read(path)
    except FileNotFoundError:
        _write_once(path, secrets.token_urlsafe(64))
        return _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _write_once(path: Path, key: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # fails if another start was quicker: then its key is the key
    except FileExistsError:
        pass
    finally:
        draft.unlink()

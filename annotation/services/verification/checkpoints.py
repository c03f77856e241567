"""Signed checkpoints of an event log: its last hash, signed with a key outside the database (Ed25519).

The hash chain alone is not keyed: someone who can write to the database can recompute it. A copy of a checkpoint that
is kept elsewhere reveals that, because the hash of the same event then differs. The time is that of the event, so the
same log always gives the same checkpoint.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from annotation.models import EventHead, Judgement, Project, Retraction
from annotation.storage.event_log import Event, format_event_time


class InvalidCheckpoint(Exception):
    """The text is not a checkpoint. The message says why."""


@dataclass(frozen=True)
class Checkpoint:
    """The hash of the project event with number `sequence`, stored at `time`."""

    project: str
    sequence: int
    hash: str
    time: str
    public_key: str
    signature: str

    def signed_bytes(self) -> bytes:
        """The bytes to sign: a JSON list of all fields except the signature."""
        content = [self.project, self.sequence, self.hash, self.time, self.public_key]
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False)


def sign_checkpoint(project: Project, sequence: int | None = None) -> Checkpoint | None:
    """Sign the hash of this event, by default the last one; None if the log does not contain it."""
    if sequence is None:
        sequence = EventHead.objects.values_list("sequence", flat=True).get(project=project)
    event = _find_event(project, sequence)
    if event is None:
        return None
    key = _signing_key()
    content = (project.slug, sequence, event.hash, format_event_time(event), _encode(_public_bytes(key)))
    return Checkpoint(*content, signature=_encode(key.sign(Checkpoint(*content, signature="").signed_bytes())))


def find_checkpoint_problems(checkpoint: Checkpoint) -> Iterator[str]:
    """Compare a checkpoint with this installation's key and with the stored event."""
    name = f"the checkpoint of {checkpoint.project} at sequence {checkpoint.sequence}"
    if checkpoint.public_key != _encode(_public_bytes(_signing_key())):
        yield f"{name} was signed with another key ({checkpoint.public_key})."
    if not has_valid_signature(checkpoint):
        yield f"{name} does not match its signature: it was changed or forged."
    project = Project.objects.filter(slug=checkpoint.project).first()
    event = _find_event(project, checkpoint.sequence) if project else None
    if project is None:
        yield f"{name} cannot be compared: there is no such project."
    elif event is None:
        yield f"{name} is later than the log: events were removed, or an older backup was restored."
    elif event.hash != checkpoint.hash:
        yield f"{name} has another hash than the log: events up to this one were changed, and their hashes recomputed."


def has_valid_signature(checkpoint: Checkpoint) -> bool:
    """Whether the owner of the checkpoint's public key signed it."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(checkpoint.public_key, validate=True))
        key.verify(base64.b64decode(checkpoint.signature, validate=True), checkpoint.signed_bytes())
    except (InvalidSignature, ValueError):
        return False
    return True


def read_checkpoints(text: str) -> list[Checkpoint]:
    """Read checkpoints, one per line, the output of `verify --json`, or the manifest of an archive."""
    try:
        rows = [json.loads(text)]
    except ValueError:
        rows = [_parse_line(line) for line in text.splitlines() if line.strip()]
    if len(rows) == 1 and isinstance(rows[0], dict):
        row = rows[0]
        rows = row["checkpoints"] if isinstance(row.get("checkpoints"), list) else [row.get("checkpoint", row)]
    if not rows:
        raise InvalidCheckpoint("it contains no checkpoint")
    return [_parse_checkpoint(row) for row in rows]


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise InvalidCheckpoint("it is neither JSON nor JSON lines") from None


def _parse_checkpoint(row: Any) -> Checkpoint:
    names = {field.name: int if field.name == "sequence" else str for field in fields(Checkpoint)}
    if not isinstance(row, dict) or not all(type(row.get(name)) is kind for name, kind in names.items()):
        raise InvalidCheckpoint(f"a checkpoint has the fields {', '.join(names)}")
    if not 0 < row["sequence"] < 2**63:
        raise InvalidCheckpoint("the sequence of a checkpoint is a positive number")
    return Checkpoint(**{name: row[name] for name in names})


def _find_event(project: Project, sequence: int) -> Event | None:
    at = {"project": project, "sequence": sequence}
    return Judgement.objects.filter(**at).first() or Retraction.objects.filter(**at).first()


def _signing_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(settings.CHECKPOINT_KEY))


def _public_bytes(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")

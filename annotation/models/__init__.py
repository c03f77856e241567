"""The rows of a study. Invariants are database constraints first; forms and services only explain them."""

from annotation.models.audit import AuditEntry
from annotation.models.items import Item
from annotation.models.judgements import Assignment, Judgement, JudgementNote, Retraction, Suggestion
from annotation.models.people import Invitation, Membership, User
from annotation.models.projects import EventHead, Project
from annotation.models.tombstones import Tombstone
from annotation.models.workers import PlatformIdentity, Worker

__all__ = [
    "Assignment",
    "AuditEntry",
    "EventHead",
    "Invitation",
    "Item",
    "Judgement",
    "JudgementNote",
    "Membership",
    "PlatformIdentity",
    "Project",
    "Retraction",
    "Suggestion",
    "Tombstone",
    "User",
    "Worker",
]

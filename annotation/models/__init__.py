"""Models of a study. Database constraints enforce the invariants; forms and services explain violations."""

from annotation.models.accounts import Invitation, Membership, RecoveryCode, TwoFactor, User
from annotation.models.arms import Arm
from annotation.models.audit import AuditEntry, Tombstone
from annotation.models.imports import ImportChunk, JudgementImport, UploadPiece
from annotation.models.items import Item
from annotation.models.judgements import (
    Assignment,
    ImportedDetails,
    Judgement,
    JudgementNote,
    Retraction,
    Suggestion,
    TrialAnswer,
)
from annotation.models.passport import StudyPassport
from annotation.models.preparation import Preparation, WorkerCheck
from annotation.models.projects import EventHead, Project
from annotation.models.recruitment import PlatformEvent, Recruitment, WorkerInvitation
from annotation.models.workers import PlatformIdentity, Worker, WorkerExclusion

__all__ = [
    "Arm",
    "Assignment",
    "AuditEntry",
    "EventHead",
    "ImportChunk",
    "ImportedDetails",
    "Invitation",
    "Item",
    "Judgement",
    "JudgementImport",
    "JudgementNote",
    "Membership",
    "PlatformEvent",
    "PlatformIdentity",
    "Preparation",
    "Project",
    "RecoveryCode",
    "Recruitment",
    "Retraction",
    "StudyPassport",
    "Suggestion",
    "Tombstone",
    "TrialAnswer",
    "TwoFactor",
    "UploadPiece",
    "User",
    "Worker",
    "WorkerCheck",
    "WorkerExclusion",
    "WorkerInvitation",
]

"""The tables of modelling: versions and their scores, update states and jobs, API tokens, webhooks."""

from modelling.models.components import ComponentName, ComponentNumbers
from modelling.models.leases import LeasedRow
from modelling.models.snapshots import (
    ConsensusScore,
    ModelSnapshot,
    ScoreboardEntry,
    SnapshotArrays,
    WorkerPosterior,
)
from modelling.models.tokens import ApiToken
from modelling.models.updates import ExportJob, ExportPiece, Job, SettingsSearch, UpdaterBeat, UpdateState
from modelling.models.webhooks import Webhook, WebhookDelivery, WebhookHost

__all__ = [
    "ApiToken",
    "ComponentName",
    "ComponentNumbers",
    "ConsensusScore",
    "ExportJob",
    "ExportPiece",
    "Job",
    "LeasedRow",
    "ModelSnapshot",
    "ScoreboardEntry",
    "SettingsSearch",
    "SnapshotArrays",
    "UpdateState",
    "UpdaterBeat",
    "Webhook",
    "WebhookDelivery",
    "WebhookHost",
    "WorkerPosterior",
]

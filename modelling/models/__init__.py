"""The modelling app's tables: versions and scores, assessments, update states and jobs, API tokens, webhooks."""

from modelling.models.assessments import WorkerAssessment
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
from modelling.models.updates import (
    ExportJob,
    ExportPiece,
    Job,
    SettingsSearch,
    StudySimulation,
    UpdaterBeat,
    UpdateState,
)
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
    "StudySimulation",
    "UpdateState",
    "UpdaterBeat",
    "Webhook",
    "WebhookDelivery",
    "WebhookHost",
    "WorkerAssessment",
    "WorkerPosterior",
]

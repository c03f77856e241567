"""What the model leaves behind: who is fitting, immutable snapshots, and the scores that pages show."""

from modelling.models.components import ComponentName, ComponentNumbers
from modelling.models.snapshots import ConsensusScore, ModelSnapshot, ScoreboardEntry, SnapshotArrays
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
    "ModelSnapshot",
    "ScoreboardEntry",
    "SettingsSearch",
    "SnapshotArrays",
    "UpdateState",
    "UpdaterBeat",
    "Webhook",
    "WebhookDelivery",
    "WebhookHost",
]

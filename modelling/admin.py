"""Admin pages of modelling. All records are read-only except the hosts for webhooks."""

from typing import cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.admin import ProjectAdmin, ReadOnlyAdmin
from annotation.http.downloads import DownloadResponse
from annotation.models import Project, User
from annotation.services import audit
from modelling.exports.catalogue import ARCHIVE, REPORT, TABLES, ExportFile, export_names
from modelling.exports.formats import FORMATS, zip_chunks
from modelling.exports.points import ExportError
from modelling.exports.service import ExportLimitExceeded, ExportRequest, QueuedExport
from modelling.models import (
    ApiToken,
    ComponentName,
    ComponentNumbers,
    ConsensusScore,
    ExportJob,
    ExportPiece,
    ModelSnapshot,
    ScoreboardEntry,
    SettingsSearch,
    SnapshotArrays,
    StudySimulation,
    UpdaterBeat,
    UpdateState,
    Webhook,
    WebhookDelivery,
    WebhookHost,
    WorkerAssessment,
    WorkerPosterior,
)
from modelling.web.api.tokens import revoke_token


@admin.register(UpdateState)
class UpdateStateAdmin(ReadOnlyAdmin):
    place = 2
    list_display = ["project", "done_sequence", "current", "owner", "lease_until", "attempts", "condition", "message"]
    list_filter = ["attempts"]
    search_fields = ["project__title", "project__slug", "message"]
    list_select_related = ["project", "current"]


@admin.register(ModelSnapshot)
class ModelSnapshotAdmin(ReadOnlyAdmin):
    place = 1
    list_display = ["number", "project", "kind", "included", "last_sequence", "seconds", "created_at"]
    list_filter = ["kind", "project"]
    search_fields = ["project__title", "project__slug", "=data_hash", "=checksum"]
    list_select_related = ["project"]
    date_hierarchy = "created_at"
    ordering = ["-id"]


@admin.register(WorkerPosterior)
class WorkerPosteriorAdmin(ReadOnlyAdmin):
    list_display = ["worker", "project", "number"]
    list_filter = ["project"]
    exclude = ["content"]
    list_select_related = ["worker", "project"]
    ordering = ["-id"]


@admin.register(WorkerAssessment)
class WorkerAssessmentAdmin(ReadOnlyAdmin):
    list_display = ["worker", "snapshot", "answers", "careless", "different", "ordinary"]
    list_filter = ["snapshot__project"]
    list_select_related = ["worker", "snapshot"]
    ordering = ["-id"]


@admin.register(SnapshotArrays)
class SnapshotArraysAdmin(ReadOnlyAdmin):
    """Defer the arrays in lists: each takes megabytes."""

    list_display = ["checksum", "project"]
    list_filter = ["project"]
    search_fields = ["=checksum"]
    exclude = ["content"]
    list_select_related = ["project"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[SnapshotArrays]:
        return super().get_queryset(request).defer("content")


@admin.register(ConsensusScore)
class ConsensusScoreAdmin(ReadOnlyAdmin):
    list_display = ["snapshot", "rank", "item", "mean", "sd", "rank_low", "rank_high", "judgements"]
    list_filter = ["snapshot__project"]
    search_fields = ["item__key"]
    list_select_related = ["snapshot", "item"]
    ordering = ["-snapshot_id", "rank"]


@admin.register(ScoreboardEntry)
class ScoreboardEntryAdmin(ReadOnlyAdmin):
    list_display = ["snapshot", "method", "labels", "decided", "correct", "log_loss", "brier"]
    list_filter = ["method", "snapshot__project"]
    list_select_related = ["snapshot"]
    ordering = ["-snapshot_id", "method"]


@admin.register(SettingsSearch, StudySimulation)
class BackgroundJobAdmin(ReadOnlyAdmin):
    list_display = ["project", "requested_by", "requested_at", "state", "ended_at"]
    list_filter = ["state", "project"]
    search_fields = ["project__title", "project__slug", "message"]
    list_select_related = ["project", "requested_by"]
    date_hierarchy = "requested_at"


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Admin for API tokens; their hashes are not shown."""

    place = 4
    list_display = ["name", "prefix", "user", "project", "scope", "expires_at", "last_used_at", "revoked_at"]
    list_filter = ["scope", "project"]
    search_fields = ["name", "prefix", "user__username"]
    exclude = ["digest"]
    list_select_related = ["user", "project"]
    date_hierarchy = "created_at"
    actions = ["revoke"]

    @admin.action(description=gettext_lazy("Revoke the selected tokens"), permissions=["view"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[ApiToken]) -> None:
        for token in tokens:
            revoke_token(token=token, user=cast(User, request.user))


@admin.register(UpdaterBeat)
class UpdaterBeatAdmin(ReadOnlyAdmin):
    list_display = ["name", "seen_at"]
    search_fields = ["name"]
    date_hierarchy = "seen_at"


EXPORTED = [name for name in export_names() if name not in (ARCHIVE, REPORT)]


class ExportActionForm(ActionForm):
    """The fields of the export action."""

    what = forms.ChoiceField(label=gettext_lazy("What:"), choices=lambda: [(n, n) for n in EXPORTED], required=False)
    format = forms.ChoiceField(label=gettext_lazy("Format:"), choices=lambda: [(n, n) for n in FORMATS], required=False)


@admin.action(description=gettext_lazy("Export the selected projects"), permissions=["view"])
def export_projects(
    modeladmin: ProjectAdmin, request: HttpRequest, projects: QuerySet[Project]
) -> HttpResponseBase | None:
    """Download one project's file, or a zip for several; large files are queued and failures become messages."""
    what = request.POST.get("what") or "ranking"
    format = (request.POST.get("format") or "csv") if what in TABLES else ""
    files = [
        file for project in projects.order_by("slug") if (file := _export(modeladmin, request, project, what, format))
    ]
    if not files:
        return None
    if len(files) == 1:
        return DownloadResponse(files[0].name, files[0].open(), files[0].content_type)
    return DownloadResponse(f"{what}.zip", zip_chunks({file.name: file.chunks for file in files}), "application/zip")


def _export(
    modeladmin: ProjectAdmin, request: HttpRequest, project: Project, what: str, format: str
) -> ExportFile | None:
    """Return the file, or None with a message if it is queued or not available."""
    try:
        outcome = ExportRequest(project, cast(User, request.user), what, format).deliver(count=False)
    except ExportError as error:
        modeladmin.message_user(request, f"{project}: {error}", messages.WARNING)
    except ExportLimitExceeded as error:
        modeladmin.message_user(request, f"{project}: {error.message()}", messages.WARNING)
    else:
        if not isinstance(outcome, QueuedExport):
            return outcome
        message = _("%s: the file is being prepared. It will appear on the exports page of the study.")
        modeladmin.message_user(request, message % project)
    return None


# `annotation` does not import `modelling`, so the export action is added to its admin here.
ProjectAdmin.actions = [export_projects]  # type: ignore[misc]
ProjectAdmin.action_form = ExportActionForm


@admin.register(ExportJob)
class ExportJobAdmin(ReadOnlyAdmin):
    place = 3
    list_display = ["project", "what", "format", "requested_by", "requested_at", "state", "bytes"]
    list_filter = ["state", "what", "project"]
    search_fields = ["project__title", "project__slug", "name"]
    list_select_related = ["project", "requested_by"]
    date_hierarchy = "requested_at"


@admin.register(WebhookHost)
class WebhookHostAdmin(admin.ModelAdmin):
    """The hosts that webhooks may be sent to; removing one stops deliveries to it at once."""

    place = 6
    list_display = ["host", "port", "note", "created_at"]
    search_fields = ["host", "note"]
    date_hierarchy = "created_at"

    def save_model(self, request: HttpRequest, obj: WebhookHost, form: forms.ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        audit(None, request.user, "listed a host for webhooks", {"host": str(obj)})  # type: ignore[arg-type]

    def delete_model(self, request: HttpRequest, obj: WebhookHost) -> None:
        super().delete_model(request, obj)
        audit(None, request.user, "took a host for webhooks off the list", {"host": str(obj)})  # type: ignore[arg-type]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[WebhookHost]) -> None:
        for host in queryset:
            self.delete_model(request, host)


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    place = 5
    list_display = ["url", "project", "on_version", "on_goal", "active", "notified_version"]
    list_filter = ["active", "project"]
    search_fields = ["url", "project__title", "project__slug"]
    exclude = ["salt"]
    list_select_related = ["project"]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    place = 7
    list_display = ["uuid", "webhook", "event", "state", "attempts", "status", "created_at", "ended_at"]
    list_filter = ["state", "event"]
    search_fields = ["=uuid", "webhook__url"]
    list_select_related = ["webhook"]
    date_hierarchy = "created_at"


@admin.register(ExportPiece)
class ExportPieceAdmin(ReadOnlyAdmin):
    """Defer the content in lists: each row takes a megabyte."""

    list_display = ["job", "number"]
    exclude = ["content"]
    list_select_related = ["job"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ExportPiece]:
        return super().get_queryset(request).defer("content")


@admin.register(ComponentName)
class ComponentNameAdmin(ReadOnlyAdmin):
    list_display = ["project", "number", "name"]
    search_fields = ["name", "project__title", "project__slug"]
    list_select_related = ["project"]


@admin.register(ComponentNumbers)
class ComponentNumbersAdmin(ReadOnlyAdmin):
    list_display = ["snapshot", "numbers"]
    exclude = ["profile", "landmarks"]
    list_select_related = ["snapshot"]

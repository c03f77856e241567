"""The model's records for administrators: all of them are written by the updater and only shown here."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from annotation.admin import ProjectAdmin, ReadOnly
from annotation.models import Project
from annotation.services import audit
from modelling import exporting
from modelling.exporting.responses import File, csv_response, zip_response
from modelling.models import (
    ComponentName,
    ComponentNumbers,
    ConsensusScore,
    ModelSnapshot,
    ScoreboardEntry,
    SettingsSearch,
    SnapshotArrays,
    UpdaterBeat,
    UpdateState,
    Webhook,
    WebhookDelivery,
    WebhookHost,
)
from modelling.versions import shown_of


@admin.register(UpdateState)
class UpdateStateAdmin(ReadOnly):
    list_display = ["project", "done_sequence", "current", "owner", "lease_until", "attempts", "condition", "words"]
    list_filter = ["attempts"]
    search_fields = ["project__title", "project__slug", "words"]
    list_select_related = ["project", "current"]


@admin.register(ModelSnapshot)
class ModelSnapshotAdmin(ReadOnly):
    list_display = ["number", "project", "kind", "included", "last_sequence", "seconds", "created_at"]
    list_filter = ["kind", "project"]
    search_fields = ["project__title", "project__slug", "=data_hash", "=checksum"]
    list_select_related = ["project"]
    date_hierarchy = "created_at"
    ordering = ["-id"]


@admin.register(SnapshotArrays)
class SnapshotArraysAdmin(ReadOnly):
    """The arrays themselves are megabytes and are never loaded for a list."""

    list_display = ["checksum", "project"]
    list_filter = ["project"]
    search_fields = ["=checksum"]
    exclude = ["content"]
    list_select_related = ["project"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[SnapshotArrays]:
        return super().get_queryset(request).defer("content")


@admin.register(ConsensusScore)
class ConsensusScoreAdmin(ReadOnly):
    list_display = ["snapshot", "rank", "item", "mean", "sd", "rank_low", "rank_high", "judgements"]
    list_filter = ["snapshot__project"]
    search_fields = ["item__key"]
    list_select_related = ["snapshot", "item"]
    ordering = ["-snapshot_id", "rank"]


@admin.register(ScoreboardEntry)
class ScoreboardEntryAdmin(ReadOnly):
    list_display = ["snapshot", "method", "labels", "decided", "correct", "log_loss", "brier"]
    list_filter = ["method", "snapshot__project"]
    list_select_related = ["snapshot"]
    ordering = ["-snapshot_id", "method"]


@admin.register(SettingsSearch)
class SettingsSearchAdmin(ReadOnly):
    list_display = ["project", "asked_by", "asked_at", "state", "ended_at"]
    list_filter = ["state", "project"]
    search_fields = ["project__title", "project__slug", "words"]
    list_select_related = ["project", "asked_by"]
    date_hierarchy = "asked_at"


@admin.register(UpdaterBeat)
class UpdaterBeatAdmin(ReadOnly):
    list_display = ["name", "seen_at"]
    search_fields = ["name"]
    date_hierarchy = "seen_at"


@admin.action(description="Export the rankings of the selected projects (CSV)", permissions=["view"])
def export_rankings(modeladmin: ProjectAdmin, request: HttpRequest, projects: QuerySet[Project]) -> HttpResponse | None:
    """One project gives a CSV file, several a zip of them; projects without a ranking are named."""
    states = UpdateState.objects.filter(project__in=projects, current__isnull=False).select_related(
        "current__project", "pinned__project"
    )
    snapshots = [snapshot for state in states.order_by("project__slug") if (snapshot := shown_of(state))]
    for project in projects.exclude(pk__in=[snapshot.project_id for snapshot in snapshots]):
        modeladmin.message_user(request, _("%s has no ranking yet.") % project, messages.WARNING)
    for snapshot in snapshots:
        audit(snapshot.project, request.user, "exported the ranking", {"version": snapshot.number})  # type: ignore[arg-type]
    if not snapshots:
        return None
    tables = [(snapshot.project, exporting.table(snapshot.project, "ranking")) for snapshot in snapshots]
    files = [
        File(exporting.file_name(project, table, "csv"), b"".join(exporting.pieces(table, "csv")))
        for project, table in tables
    ]
    return csv_response(files[0]) if len(files) == 1 else zip_response("rankings.zip", files)


# Projects are annotation's rows, and annotation knows nothing of rankings: the action is hung on from here.
ProjectAdmin.actions = [export_rankings]  # type: ignore[misc]


@admin.register(WebhookHost)
class WebhookHostAdmin(admin.ModelAdmin):
    """The servers that owners may send webhooks to. Taking one off the list ends deliveries to it at once."""

    list_display = ["host", "port", "note", "created_at"]
    search_fields = ["host", "note"]
    date_hierarchy = "created_at"

    def save_model(self, request: HttpRequest, obj: WebhookHost, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        audit(None, request.user, "listed a host for webhooks", {"host": str(obj)})  # type: ignore[arg-type]

    def delete_model(self, request: HttpRequest, obj: WebhookHost) -> None:
        super().delete_model(request, obj)
        audit(None, request.user, "took a host for webhooks off the list", {"host": str(obj)})  # type: ignore[arg-type]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[WebhookHost]) -> None:
        for host in queryset:
            self.delete_model(request, host)


@admin.register(Webhook)
class WebhookAdmin(ReadOnly):
    list_display = ["url", "project", "on_version", "on_goal", "active", "told_version"]
    list_filter = ["active", "project"]
    search_fields = ["url", "project__title", "project__slug"]
    exclude = ["salt"]
    list_select_related = ["project"]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly):
    list_display = ["uuid", "webhook", "event", "state", "attempts", "status", "created_at", "ended_at"]
    list_filter = ["state", "event"]
    search_fields = ["=uuid", "webhook__url"]
    list_select_related = ["webhook"]
    date_hierarchy = "created_at"


@admin.register(ComponentName)
class ComponentNameAdmin(ReadOnly):
    list_display = ["project", "number", "name"]
    search_fields = ["name", "project__title", "project__slug"]
    list_select_related = ["project"]


@admin.register(ComponentNumbers)
class ComponentNumbersAdmin(ReadOnly):
    list_display = ["snapshot", "numbers"]
    exclude = ["profile", "landmarks"]
    list_select_related = ["snapshot"]

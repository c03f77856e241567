"""The model's records for administrators: all of them are written by the updater and only shown here."""

from typing import cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.admin import ProjectAdmin, ReadOnly
from annotation.models import Project, User
from annotation.services import audit
from modelling import exporting
from modelling.exporting.catalogue import ARCHIVE, names
from modelling.exporting.requests import AT_ONCE, ask
from modelling.exporting.responses import Download
from modelling.exporting.zips import zipped
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
    UpdaterBeat,
    UpdateState,
    Webhook,
    WebhookDelivery,
    WebhookHost,
)
from modelling.tokens import revoke_token


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


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    """Whose tokens there are. Their words are not kept anywhere; their fingerprint is nobody's business."""

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
class UpdaterBeatAdmin(ReadOnly):
    list_display = ["name", "seen_at"]
    search_fields = ["name"]
    date_hierarchy = "seen_at"


EXPORTED = [name for name in names() if name != ARCHIVE]


class ExportActionForm(ActionForm):
    """What the export is of, beside the action."""

    what = forms.ChoiceField(label=gettext_lazy("What:"), choices=lambda: [(n, n) for n in EXPORTED], required=False)
    format = forms.ChoiceField(
        label=gettext_lazy("Format:"), choices=lambda: [(n, n) for n in exporting.FORMATS], required=False
    )


@admin.action(description=gettext_lazy("Export the selected projects"), permissions=["view"])
def export_projects(
    modeladmin: ProjectAdmin, request: HttpRequest, projects: QuerySet[Project]
) -> HttpResponseBase | None:
    """One project gives a file, several a zip of them; large ones are made by the updater; what cannot be is named."""
    what = request.POST.get("what") or "ranking"
    format = (request.POST.get("format") or "csv") if what in exporting.TABLES else ""
    exports = []
    for project in projects.order_by("slug"):
        try:
            exports += _export_of(modeladmin, request, project, what, format)
        except exporting.NoExport as refusal:
            modeladmin.message_user(request, f"{project}: {refusal}", messages.WARNING)
    if not exports:
        return None
    if len(exports) == 1:
        return Download(exports[0].name, exports[0].pieces(), exports[0].content_type)
    return Download(f"{what}.zip", zipped({each.name: each.pieces for each in exports}), "application/zip")


def _export_of(
    modeladmin: ProjectAdmin, request: HttpRequest, project: Project, what: str, format: str
) -> list[exporting.Export]:
    """The file, or none where it is large: then the project's page has it later."""
    user, point = cast(User, request.user), exporting.point_of(project)
    export = exporting.export_at(point, what, format)
    if export.rows > AT_ONCE:
        ask(project=project, user=user, point=point, what=what, format=format)
        words = _("%s: the file is made in the background; it will be on the project's page of exports.")
        modeladmin.message_user(request, words % project)
        return []
    audit(project, user, f"exported {what}", {"version": export.version, "as_of_seq": export.as_of_seq})
    return [export]


# Projects are annotation's rows, and annotation knows nothing of exports: the action is hung on from here.
ProjectAdmin.actions = [export_projects]  # type: ignore[misc]
ProjectAdmin.action_form = ExportActionForm


@admin.register(ExportJob)
class ExportJobAdmin(ReadOnly):
    list_display = ["project", "what", "format", "asked_by", "asked_at", "state", "bytes"]
    list_filter = ["state", "what", "project"]
    search_fields = ["project__title", "project__slug", "name"]
    list_select_related = ["project", "asked_by"]
    date_hierarchy = "asked_at"


@admin.register(WebhookHost)
class WebhookHostAdmin(admin.ModelAdmin):
    """The servers that owners may send webhooks to. Taking one off the list ends deliveries to it at once."""

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


@admin.register(ExportPiece)
class ExportPieceAdmin(ReadOnly):
    """A megabyte of a file each, never loaded for a list."""

    list_display = ["job", "number"]
    exclude = ["content"]
    list_select_related = ["job"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ExportPiece]:
        return super().get_queryset(request).defer("content")


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

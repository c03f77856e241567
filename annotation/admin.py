"""The rows for administrators. What is an event or a record of one is shown and never edited."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from annotation import services
from annotation.models import (
    Assignment,
    AuditEntry,
    EventHead,
    Invitation,
    Item,
    Judgement,
    JudgementNote,
    Membership,
    PlatformIdentity,
    Project,
    Retraction,
    Suggestion,
    Tombstone,
    User,
    Worker,
)


class ReadOnly(admin.ModelAdmin):
    """Can be looked at. Adding, changing and deleting are done by services, or not at all."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Erasable(ReadOnly):
    """Personal data: not edited, but deleted where a person asks for it."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


admin.site.unregister(Group)  # roles are memberships of projects


@admin.register(User)
class ResearcherAdmin(UserAdmin):
    list_display = ["username", "email", "is_active", "is_staff", "last_login"]
    list_filter = ["is_active", "is_staff"]
    date_hierarchy = "date_joined"


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0
    can_delete = False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    """New projects, their state and their members belong to the project's own pages, where the rules are explained."""

    list_display = ["title", "slug", "state", "pairs", "redundancy", "simulated", "created_at"]
    list_filter = ["state", "simulated"]
    search_fields = ["title", "slug", "question"]
    readonly_fields = ["slug", "state", "questionnaire", "simulated", "created_at"]
    date_hierarchy = "created_at"
    inlines = [MembershipInline]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """A project with judgements is archived and deleted on its own pages, or stays."""
        return super().has_delete_permission(request, obj) and not (obj and obj.judgements.exists())

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Who may delete a project may delete its parts; what must stay is protected by the database."""
        shown, counts, _not_permitted, protected = super().get_deleted_objects(objs, request)
        return shown, counts, set(), protected

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        services.delete_project(project=obj, user=request.user)  # type: ignore[arg-type]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        for project in queryset:
            self.delete_model(request, project)

    def save_model(self, request: HttpRequest, obj: Project, form: ModelForm, change: bool) -> None:
        """Through the service, so that the audit holds old and new values."""
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        before = Project.objects.get(pk=obj.pk)
        services.change_project(project=before, user=request.user, changes=changes)  # type: ignore[arg-type]


@admin.register(Item)
class ItemAdmin(ReadOnly):
    """A text is corrected on the project's pages: as a new row, so that judgements keep the text that was read."""

    list_display = ["key", "revision", "project", "group", "active", "created_at"]
    list_filter = ["active", "project"]
    search_fields = ["key", "text", "group"]
    list_select_related = ["project"]
    date_hierarchy = "created_at"


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    list_display = ["code", "project", "state", "outcome", "joined_at"]
    list_filter = ["state", "project"]
    search_fields = ["code"]
    list_select_related = ["project"]
    date_hierarchy = "joined_at"


@admin.register(PlatformIdentity)
class PlatformIdentityAdmin(Erasable):
    """Found by the platform's id, yet never listed with it. Deleting the row erases the person."""

    list_display = ["worker", "project", "platform"]
    list_filter = ["platform", "project"]
    search_fields = ["=external_id", "worker__code"]
    list_select_related = ["worker", "project"]


@admin.register(Assignment)
class AssignmentAdmin(ReadOnly):
    list_display = ["public_id", "project", "worker", "item_lo", "item_hi", "purpose", "issued_at", "closed_at"]
    list_filter = ["purpose", "policy", "project"]
    search_fields = ["=public_id", "worker__code"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "issued_at"


@admin.register(Judgement)
class JudgementAdmin(ReadOnly):
    list_display = ["sequence", "worker", "item_lo", "item_hi", "answer", "source", "created_at", "project"]
    list_filter = ["choice", "source", "late", "project"]
    search_fields = ["=uuid", "worker__code", "item_lo__key", "item_hi__key"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "created_at"
    ordering = ["-id"]

    @admin.display(description=_("answer"), ordering="choice")
    def answer(self, judgement: Judgement) -> str:
        """The preferred item by its key, or what was said instead."""
        preferred = {Judgement.Choice.LO: judgement.item_lo.key, Judgement.Choice.HI: judgement.item_hi.key}
        return preferred.get(Judgement.Choice(judgement.choice), judgement.get_choice_display())


@admin.register(Retraction)
class RetractionAdmin(ReadOnly):
    list_display = ["sequence", "project", "judgement", "created_at"]
    list_filter = ["project"]
    search_fields = ["=uuid", "=judgement__uuid", "judgement__worker__code"]
    list_select_related = ["project", "judgement"]
    date_hierarchy = "created_at"
    ordering = ["-id"]


@admin.register(JudgementNote)
class JudgementNoteAdmin(Erasable):
    list_display = ["judgement", "text"]
    search_fields = ["text", "judgement__worker__code"]
    list_select_related = ["judgement"]


@admin.register(Suggestion)
class SuggestionAdmin(ReadOnly):
    list_display = ["project", "worker", "item_lo", "item_hi", "gain", "created_at"]
    list_filter = ["project"]
    search_fields = ["worker__code", "item_lo__key", "item_hi__key"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "created_at"


@admin.register(Membership)
class MembershipAdmin(ReadOnly):
    """Changed on the members page of the project, which keeps at least one owner."""

    list_display = ["user", "project", "role"]
    list_filter = ["role", "project"]
    search_fields = ["user__username", "project__title"]
    list_select_related = ["user", "project"]


@admin.register(Invitation)
class InvitationAdmin(Erasable):
    list_display = ["project", "role", "created_by", "expires_at", "used_at", "used_by"]
    list_filter = ["role", "project"]
    search_fields = ["project__title", "created_by__username"]
    exclude = ["digest"]
    list_select_related = ["project", "created_by", "used_by"]
    date_hierarchy = "expires_at"


@admin.register(EventHead)
class EventHeadAdmin(ReadOnly):
    list_display = ["project", "sequence", "inputs_revision"]
    search_fields = ["project__title", "project__slug"]
    list_select_related = ["project"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly):
    list_display = ["at", "user", "action", "project"]
    list_filter = ["action", "project"]
    search_fields = ["action", "user__username", "project__title"]
    list_select_related = ["user", "project"]
    date_hierarchy = "at"


@admin.register(Tombstone)
class TombstoneAdmin(ReadOnly):
    list_display = ["slug", "user", "events", "deleted_at", "removed_at"]
    search_fields = ["slug", "user__username"]
    list_select_related = ["user"]
    date_hierarchy = "deleted_at"

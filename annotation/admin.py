"""Django admin. Events and logs can be viewed but not edited."""

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
    Arm,
    Assignment,
    AuditEntry,
    EventHead,
    ImportChunk,
    ImportedDetails,
    Invitation,
    Item,
    Judgement,
    JudgementImport,
    JudgementNote,
    Membership,
    PlatformEvent,
    PlatformIdentity,
    Preparation,
    Project,
    RecoveryCode,
    Recruitment,
    Retraction,
    StudyPassport,
    Suggestion,
    Tombstone,
    TrialAnswer,
    TwoFactor,
    UploadPiece,
    User,
    Worker,
    WorkerCheck,
    WorkerExclusion,
    WorkerInvitation,
)

TECHNICAL = 100  # sorts tables that administrators rarely need last


class ReadOnlyAdmin(admin.ModelAdmin):
    """Read-only admin: only services add, change or delete these rows."""

    place = TECHNICAL
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ErasableAdmin(ReadOnlyAdmin):
    """Admin for personal data: read-only, but rows can be deleted at the person's request."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


admin.site.unregister(Group)  # roles are project memberships


@admin.register(User)
class ResearcherAdmin(UserAdmin):
    place = 0
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


@admin.register(TwoFactor)
class TwoFactorAdmin(ErasableAdmin):
    """Admin for second factors; deleting a row switches the second factor off, as `reset_two_factor` does."""

    list_display = ["user", "confirmed_at"]
    search_fields = ["user__username"]


@admin.register(RecoveryCode)
class RecoveryCodeAdmin(ReadOnlyAdmin):
    list_display = ["two_factor"]
    search_fields = ["two_factor__user__username"]
    exclude = ["digest"]


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    """Edit texts and limits only: projects are created, opened and shared on their own pages."""

    place = 1
    list_display = ["title", "slug", "state", "pairs", "redundancy", "simulated", "created_at"]
    list_filter = ["state", "simulated"]
    search_fields = ["title", "slug", "question"]
    readonly_fields = ["slug", "state", "questionnaire", "simulated", "created_at"]
    date_hierarchy = "created_at"
    inlines = [MembershipInline]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """Allow deleting projects without judgements; others must be archived and deleted on their own pages."""
        return super().has_delete_permission(request, obj) and not (obj and obj.judgements.exists())

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Skip permission checks for related rows; foreign keys protect those that must stay."""
        shown, counts, _not_permitted, protected = super().get_deleted_objects(objs, request)
        return shown, counts, set(), protected

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        services.delete_project(project=obj, user=request.user)  # type: ignore[arg-type]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        for project in queryset:
            self.delete_model(request, project)

    def save_model(self, request: HttpRequest, obj: Project, form: ModelForm, change: bool) -> None:
        """Save through the service, so that the old and new values are audited."""
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        before = Project.objects.get(pk=obj.pk)
        services.change_project(project=before, user=request.user, changes=changes)  # type: ignore[arg-type]


@admin.register(Item)
class ItemAdmin(ReadOnlyAdmin):
    """Read-only item admin: texts are corrected on the project's pages, as a new revision."""

    place = 2
    list_display = ["key", "revision", "project", "group", "active", "created_at"]
    list_filter = ["active", "project"]
    search_fields = ["key", "text", "group"]
    list_select_related = ["project"]
    date_hierarchy = "created_at"


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    place = 3
    list_display = ["code", "project", "state", "outcome", "joined_at"]
    list_filter = ["state", "project"]
    search_fields = ["code"]
    list_select_related = ["project"]
    date_hierarchy = "joined_at"


@admin.register(WorkerExclusion)
class WorkerExclusionAdmin(ReadOnlyAdmin):
    place = 8
    list_display = ["worker", "reason", "excluded_by", "excluded_at", "until_revision"]
    search_fields = ["worker__code", "reason"]
    list_select_related = ["worker", "excluded_by"]
    date_hierarchy = "excluded_at"


@admin.register(PlatformIdentity)
class PlatformIdentityAdmin(ErasableAdmin):
    """Admin that can be searched by platform ID without listing IDs. Deleting a row erases the person's data."""

    list_display = ["worker", "project", "platform"]
    list_filter = ["platform", "project"]
    search_fields = ["=external_id", "worker__code"]
    list_select_related = ["worker", "project"]


@admin.register(PlatformEvent)
class PlatformEventAdmin(ReadOnlyAdmin):
    list_display = ["project", "status", "sent_at", "received_at"]
    list_filter = ["status", "project"]
    search_fields = ["=session_id"]
    list_select_related = ["project"]


@admin.register(StudyPassport)
class StudyPassportAdmin(ReadOnlyAdmin):
    list_display = ["project", "frozen_at", "digest"]
    list_select_related = ["project"]


@admin.register(Recruitment)
class RecruitmentAdmin(ReadOnlyAdmin):
    list_display = ["project", "platform", "study_id"]
    exclude = ["webhook_secret"]
    list_filter = ["platform"]
    list_select_related = ["project"]


@admin.register(Assignment)
class AssignmentAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "project", "worker", "item_lo", "item_hi", "purpose", "issued_at", "closed_at"]
    list_filter = ["purpose", "policy", "project"]
    search_fields = ["=public_id", "worker__code"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "issued_at"


@admin.register(Preparation)
class PreparationAdmin(ReadOnlyAdmin):
    list_display = ["project"]
    search_fields = ["project__title", "project__slug"]
    list_select_related = ["project"]


@admin.register(Arm)
class ArmAdmin(ReadOnlyAdmin):
    list_display = ["name", "project", "number"]
    list_filter = ["project"]
    list_select_related = ["project"]


@admin.register(WorkerCheck)
class WorkerCheckAdmin(ReadOnlyAdmin):
    list_display = ["worker", "number", "kind", "expected", "choice", "issued_at", "answered_at", "project"]
    list_filter = ["project"]
    search_fields = ["=public_id", "worker__code"]
    list_select_related = ["project", "worker"]
    date_hierarchy = "issued_at"


@admin.register(WorkerInvitation)
class WorkerInvitationAdmin(ReadOnlyAdmin):
    list_display = ["project", "state", "created_at", "expires_at", "used_at", "revoked_at"]
    list_filter = ["project"]
    list_select_related = ["project"]


@admin.register(TrialAnswer)
class TrialAnswerAdmin(ReadOnlyAdmin):
    list_display = ["project", "user", "left", "right", "choice", "created_at"]
    list_filter = ["project"]
    list_select_related = ["project", "user", "left", "right"]
    date_hierarchy = "created_at"


@admin.register(Judgement)
class JudgementAdmin(ReadOnlyAdmin):
    place = 4
    list_display = ["sequence", "worker", "item_lo", "item_hi", "answer", "source", "created_at", "project"]
    list_filter = ["choice", "source", "late", "project"]
    search_fields = ["=uuid", "worker__code", "item_lo__key", "item_hi__key"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "created_at"
    ordering = ["-id"]

    @admin.display(description=_("answer"), ordering="choice")
    def answer(self, judgement: Judgement) -> str:
        """Return the key of the preferred item, or the label of a tie or skip."""
        preferred = {Judgement.Choice.LO: judgement.item_lo.key, Judgement.Choice.HI: judgement.item_hi.key}
        return preferred.get(Judgement.Choice(judgement.choice), judgement.get_choice_display())


@admin.register(Retraction)
class RetractionAdmin(ReadOnlyAdmin):
    list_display = ["sequence", "project", "judgement", "created_at"]
    list_filter = ["project"]
    search_fields = ["=uuid", "=judgement__uuid", "judgement__worker__code"]
    list_select_related = ["project", "judgement"]
    date_hierarchy = "created_at"
    ordering = ["-id"]


@admin.register(JudgementNote)
class JudgementNoteAdmin(ErasableAdmin):
    list_display = ["judgement", "text"]
    search_fields = ["text", "judgement__worker__code"]
    list_select_related = ["judgement"]


@admin.register(ImportedDetails)
class ImportedDetailsAdmin(ErasableAdmin):
    list_display = ["judgement", "judged_at", "columns"]
    search_fields = ["judgement__worker__code"]
    list_select_related = ["judgement"]


@admin.register(JudgementImport)
class JudgementImportAdmin(ReadOnlyAdmin):
    list_display = ["project", "state", "added", "total", "created_at", "ended_at"]
    list_filter = ["state"]
    search_fields = ["project__title", "project__slug"]
    list_select_related = ["project"]
    date_hierarchy = "created_at"


@admin.register(ImportChunk)
class ImportChunkAdmin(ReadOnlyAdmin):
    list_display = ["job", "number"]
    search_fields = ["job__project__slug"]
    list_select_related = ["job"]
    exclude = ["content"]  # holds the workers' names


@admin.register(UploadPiece)
class UploadPieceAdmin(ReadOnlyAdmin):
    list_display = ["name", "number", "stored_at"]
    search_fields = ["name"]


@admin.register(Suggestion)
class SuggestionAdmin(ReadOnlyAdmin):
    list_display = ["project", "worker", "item_lo", "item_hi", "gain", "created_at"]
    list_filter = ["project"]
    search_fields = ["worker__code", "item_lo__key", "item_hi__key"]
    list_select_related = ["project", "worker", "item_lo", "item_hi"]
    date_hierarchy = "created_at"


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    """Read-only: memberships are changed on the project's members page, which keeps at least one owner."""

    place = 5
    list_display = ["user", "project", "role"]
    list_filter = ["role", "project"]
    search_fields = ["user__username", "project__title"]
    list_select_related = ["user", "project"]


@admin.register(Invitation)
class InvitationAdmin(ErasableAdmin):
    place = 6
    list_display = ["project", "role", "created_by", "expires_at", "used_at", "used_by"]
    list_filter = ["role", "project"]
    search_fields = ["project__title", "created_by__username"]
    exclude = ["digest"]
    list_select_related = ["project", "created_by", "used_by"]
    date_hierarchy = "expires_at"


@admin.register(EventHead)
class EventHeadAdmin(ReadOnlyAdmin):
    list_display = ["project", "sequence", "inputs_revision"]
    search_fields = ["project__title", "project__slug"]
    list_select_related = ["project"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    place = 7
    list_display = ["at", "user", "action", "project"]
    list_filter = ["action", "project"]
    search_fields = ["action", "user__username", "project__title"]
    list_select_related = ["user", "project"]
    date_hierarchy = "at"


@admin.register(Tombstone)
class TombstoneAdmin(ReadOnlyAdmin):
    place = 9
    list_display = ["slug", "user", "events", "deleted_at", "removed_at"]
    search_fields = ["slug", "user__username"]
    list_select_related = ["user"]
    date_hierarchy = "deleted_at"

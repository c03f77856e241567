"""The webhooks of a project: added, tried, switched off and removed by its owners."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from annotation.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling import webhooks
from modelling.forms import WebhookForm
from modelling.models import Webhook, WebhookDelivery, WebhookHost

RECENT = 20


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def listing(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The webhooks with how their last messages went; one more is added, and its secret shown this once."""
    form = WebhookForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        hook = webhooks.add_webhook(project=project, user=request.user, **form.cleaned_data)
        return _page(request, project, WebhookForm(project), fresh=hook)
    return _page(request, project, form, status=422 if form.is_bound else 200)


@never_cache
@require_POST
@members_only(Role.OWNER)
def secret(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """A new secret in place of the old one, shown this once."""
    hook = _found(project, pk)
    webhooks.renew_secret(webhook=hook, user=request.user)
    return _page(request, project, WebhookForm(project), fresh=hook)


@require_POST
@members_only(Role.OWNER)
def switch(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    active = request.POST.get("active") == "on"
    webhooks.switch_webhook(webhook=_found(project, pk), user=request.user, active=active)
    messages.success(request, _("News are sent again.") if active else _("Nothing is sent there any more."))
    return redirect("modelling:webhooks", project.slug)


@require_POST
@members_only(Role.OWNER)
def test(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    if webhooks.send_test(webhook=_found(project, pk), user=request.user):
        messages.success(request, _("A test is on its way. Reload the page in a few seconds to see how it went."))
    else:
        messages.info(request, _("A test is on its way already."))
    return redirect("modelling:webhooks", project.slug)


@require_POST
@members_only(Role.OWNER)
def remove(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    webhooks.remove_webhook(webhook=_found(project, pk), user=request.user)
    messages.success(request, _("The webhook and the record of its messages are removed."))
    return redirect("modelling:webhooks", project.slug)


def _found(project: Project, pk: int) -> Webhook:
    return get_object_or_404(Webhook.objects.select_related("project"), project=project, pk=pk)


def _page(
    request: ResearcherRequest, project: Project, form: WebhookForm, status: int = 200, fresh: Webhook | None = None
) -> HttpResponse:
    recent = WebhookDelivery.objects.filter(webhook__project=project).select_related("webhook")
    context = {
        "project": project,
        "form": form,
        "hooks": Webhook.objects.filter(project=project),
        "hosts": list(WebhookHost.objects.all()),
        "deliveries": recent[:RECENT],
        "most_attempts": webhooks.ATTEMPTS,
        "fresh": fresh,
        "secret": webhooks.secrets_of(fresh)[0] if fresh else "",
    }
    return render(request, "modelling/webhooks.html", context, status=status)

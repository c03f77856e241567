"""The webhooks page: owners add, test, disable and remove webhooks."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.models import Webhook, WebhookDelivery, WebhookHost
from modelling.updater.webhooks import delivery
from modelling.updater.webhooks.signing import signing_secrets
from modelling.web.forms.webhooks import WebhookForm

SHOWN_DELIVERIES = 20


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def listing(request: ResearcherRequest, project: Project) -> HttpResponse:
    """List webhooks and recent deliveries, and add a webhook; its secret is shown only once."""
    form = WebhookForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        hook = delivery.add_webhook(project=project, user=request.user, **form.cleaned_data)
        return _page(request, project, WebhookForm(project), created=hook)
    return _page(request, project, form, status=422 if form.is_bound else 200)


@never_cache
@require_POST
@members_only(Role.OWNER)
def secret(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """Replace the secret; the new one is shown only once."""
    hook = _get_webhook(project, pk)
    delivery.renew_secret(webhook=hook, user=request.user)
    return _page(request, project, WebhookForm(project), created=hook)


@require_POST
@members_only(Role.OWNER)
def switch(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    active = request.POST.get("active") == "on"
    delivery.switch_webhook(webhook=_get_webhook(project, pk), user=request.user, active=active)
    messages.success(request, _("The webhook is enabled.") if active else _("The webhook is disabled."))
    return redirect("modelling:webhooks", project.slug)


@require_POST
@members_only(Role.OWNER)
def test(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    if delivery.send_test(webhook=_get_webhook(project, pk), user=request.user):
        messages.success(request, _("A test message is being sent. Reload the page in a few seconds."))
    else:
        messages.info(request, _("A test message is already being sent."))
    return redirect("modelling:webhooks", project.slug)


@require_POST
@members_only(Role.OWNER)
def remove(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    delivery.remove_webhook(webhook=_get_webhook(project, pk), user=request.user)
    messages.success(request, _("The webhook and its delivery log have been removed."))
    return redirect("modelling:webhooks", project.slug)


def _get_webhook(project: Project, pk: int) -> Webhook:
    return get_object_or_404(Webhook.objects.select_related("project"), project=project, pk=pk)


def _page(
    request: ResearcherRequest, project: Project, form: WebhookForm, status: int = 200, created: Webhook | None = None
) -> HttpResponse:
    recent = WebhookDelivery.objects.filter(webhook__project=project).select_related("webhook")
    context = {
        "project": project,
        "form": form,
        "hooks": Webhook.objects.filter(project=project),
        "hosts": list(WebhookHost.objects.all()),
        "deliveries": recent[:SHOWN_DELIVERIES],
        "most_attempts": delivery.MAX_ATTEMPTS,
        "created": created,
        "secret": signing_secrets(created)[0] if created else "",
    }
    return render(request, "modelling/webhooks.html", context, status=status)

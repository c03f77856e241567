"""Home page: what Concord is, and the open studies."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from annotation.models import Project

MAX_STUDIES = 50


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    studies = Project.objects.filter(state=Project.State.OPEN, listed=True).order_by("simulated", "title")[:MAX_STUDIES]
    return render(request, "annotation/home.html", {"studies": studies})

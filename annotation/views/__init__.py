"""Pages of the annotation app. A view checks access, parses the request, calls a service and renders."""

from django.http import HttpRequest

from annotation.models import User


class ResearcherRequest(HttpRequest):
    """A request that has passed `login_required`; `members_only` also sets the role."""

    user: User
    role: str

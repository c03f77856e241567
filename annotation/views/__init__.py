"""Pages. A view is five lines of plot: who asks, is it allowed, parse, call a service, answer."""

from django.http import HttpRequest

from annotation.models import User


class ResearcherRequest(HttpRequest):
    """A request that has passed `login_required`; behind `members_only` it knows the role as well."""

    user: User
    role: str

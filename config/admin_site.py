"""The admin site, which lists studies and people first."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse


class ConcordAdminSite(AdminSite):
    """List studies and people first, and sort each app's tables by their admin class's `place`, then by name."""

    site_header = site_title = "Concord"
    index_title = "Administration"

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseRedirect:
        """Redirect to the site's log-in page, which has rate limits and the second factor."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        target = urlencode({REDIRECT_FIELD_NAME: request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index")})
        return HttpResponseRedirect(f"{reverse('login')}?{target}")

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps: list[Any] = super().get_app_list(request, app_label)
        for app in apps:
            app["models"].sort(key=lambda row: (getattr(self.get_model_admin(row["model"]), "place", 0), row["name"]))
        return sorted(apps, key=lambda app: app["app_label"] != "annotation")


class ConcordAdminConfig(AdminConfig):
    default_site = "config.admin_site.ConcordAdminSite"

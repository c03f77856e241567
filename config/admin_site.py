"""The admin site, which lists studies and people first."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig
from django.http import HttpRequest


class ConcordAdminSite(AdminSite):
    """Lists studies and people first, and the tables of each app by the `place` of their admin class and by name."""

    site_header = site_title = "Concord"
    index_title = "Administration"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps: list[Any] = super().get_app_list(request, app_label)
        for app in apps:
            app["models"].sort(key=lambda row: (getattr(self.get_model_admin(row["model"]), "place", 0), row["name"]))
        return sorted(apps, key=lambda app: app["app_label"] != "annotation")


class ConcordAdminConfig(AdminConfig):
    default_site = "config.admin_site.ConcordAdminSite"

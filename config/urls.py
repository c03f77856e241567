"""Every address of the house, and which room answers it."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path

from annotation.views import accounts
from config import health
from modelling.api.site import api

handler400 = "annotation.errors.bad_request"
handler403 = "annotation.errors.forbidden"
handler404 = "annotation.errors.not_found"
handler500 = "annotation.errors.server_error"

admin.site.site_header = "Concord"
admin.site.site_title = "Concord"
admin.site.index_title = "Administration"

log_in = auth_views.LoginView.as_view(redirect_authenticated_user=True, http_method_names=["get", "head", "post"])

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("accounts/login/", log_in, name="login"),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("accounts/password/", accounts.ChangePassword.as_view(), name="password_change"),
    path("accounts/reset/", accounts.AskForReset.as_view(), name="password_reset"),
    path("accounts/reset/sent/", accounts.ResetSent.as_view(), name="password_reset_sent"),
    path("accounts/reset/<uidb64>/<token>/", accounts.SetPassword.as_view(), name="password_reset_confirm"),
    path("admin/", admin.site.urls),
    path("", include("annotation.urls")),
    path("", include("modelling.urls")),
    path("api/v1/", api.urls),
]

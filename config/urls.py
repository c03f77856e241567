"""The root URL configuration."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path

from annotation.views import accounts, two_factor
from config.monitoring import health
from config.monitoring.metrics import metrics
from modelling.web.api.router import api

handler400 = "annotation.http.error_pages.bad_request"
handler403 = "annotation.http.error_pages.forbidden"
handler404 = "annotation.http.error_pages.not_found"
handler500 = "annotation.http.error_pages.server_error"

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("accounts/login/", two_factor.LogIn.as_view(), name="login"),
    path("accounts/login/code/", two_factor.log_in_with_code, name="login_code"),
    path("accounts/two-factor/", two_factor.manage, name="two_factor"),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("accounts/password/", accounts.ChangePassword.as_view(), name="password_change"),
    path("accounts/reset/", accounts.RequestPasswordReset.as_view(), name="password_reset"),
    path("accounts/reset/sent/", accounts.PasswordResetSent.as_view(), name="password_reset_sent"),
    path("accounts/reset/<uidb64>/<token>/", accounts.SetNewPassword.as_view(), name="password_reset_confirm"),
    path("admin/", admin.site.urls),
    path("", include("annotation.urls")),
    path("", include("modelling.web.urls")),
    path("api/v1/", api.urls),
]

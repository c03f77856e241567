"""Addresses of the model's pages, and of the socket that says when there is a new version."""

from django.urls import path

from modelling import downloads, exports, steering, views, webhook_views
from modelling.api import pages
from modelling.live import ProjectConsumer

app_name = "modelling"
urlpatterns = [
    path("r/<slug:slug>/", views.public_ranking, name="public_ranking"),
    path("s/<slug:slug>/own-view/", views.own_view, name="own_view"),
    path("projects/<slug:slug>/activity/", views.activity, name="activity"),
    path("projects/<slug:slug>/ranking/", views.ranking, name="ranking"),
    path("projects/<slug:slug>/ranking.csv", views.ranking_csv, name="ranking_csv"),
    path("projects/<slug:slug>/workers/", views.workers, name="workers"),
    path("projects/<slug:slug>/workers/<slug:code>/", views.worker, name="worker"),
    path("projects/<slug:slug>/ranking/<int:pk>/", views.item, name="item"),
    path("projects/<slug:slug>/ranking/<int:pk>/judgements.csv", downloads.item_judgements, name="item_judgements_csv"),
    path("projects/<slug:slug>/workers.csv", downloads.workers, name="workers_csv"),
    path("projects/<slug:slug>/workers/<slug:code>/preferences.csv", downloads.preferences, name="preferences_csv"),
    path(
        "projects/<slug:slug>/workers/<slug:code>/judgements.csv",
        downloads.worker_judgements,
        name="worker_judgements_csv",
    ),
    path("projects/<slug:slug>/exports/", exports.exports, name="exports"),
    path("projects/<slug:slug>/exports/<int:number>/", exports.file, name="export_file"),
    path("projects/<slug:slug>/new-argument/", views.new_argument, name="new_argument"),
    path("projects/<slug:slug>/pairs/", views.pairs, name="pairs"),
    path("projects/<slug:slug>/components/", views.components, name="components"),
    path("projects/<slug:slug>/components.csv", downloads.components, name="components_csv"),
    path("projects/<slug:slug>/components/<int:number>/name/", views.component_name, name="component_name"),
    path("projects/<slug:slug>/model/", steering.model, name="model"),
    path("projects/<slug:slug>/model/versions/<int:number>/", steering.version, name="version"),
    path("projects/<slug:slug>/model/compare/", steering.compare, name="compare"),
    path("projects/<slug:slug>/model/pin/", steering.pin, name="pin"),
    path("projects/<slug:slug>/model/unpin/", steering.unpin, name="unpin"),
    path("projects/<slug:slug>/model/refit/", steering.refit, name="refit"),
    path("projects/<slug:slug>/model/settings/", steering.settings, name="model_settings"),
    path("projects/<slug:slug>/model/search/", steering.search, name="search"),
    path("projects/<slug:slug>/model/search/use/", steering.use, name="use_settings"),
    path("projects/<slug:slug>/webhooks/", webhook_views.listing, name="webhooks"),
    path("projects/<slug:slug>/webhooks/<int:pk>/secret/", webhook_views.secret, name="webhook_secret"),
    path("projects/<slug:slug>/webhooks/<int:pk>/switch/", webhook_views.switch, name="webhook_switch"),
    path("projects/<slug:slug>/webhooks/<int:pk>/test/", webhook_views.test, name="webhook_test"),
    path("projects/<slug:slug>/webhooks/<int:pk>/remove/", webhook_views.remove, name="webhook_remove"),
    path("accounts/tokens/", pages.tokens, name="tokens"),
    path("accounts/tokens/<int:pk>/revoke/", pages.revoke, name="token_revoke"),
    path("api/v1/", pages.documentation, name="api_documentation"),
    path("api/v1/openapi.json", pages.document, name="api_document"),
]
websocket_urlpatterns = [path("ws/projects/<slug:slug>/", ProjectConsumer.as_asgi())]

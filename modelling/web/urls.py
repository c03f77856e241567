"""URLs of the model's pages, and of the WebSocket for live updates."""

from django.urls import path

from modelling.web.live import ProjectConsumer
from modelling.web.views import (
    api_tokens,
    components,
    downloads,
    exports,
    model,
    planning,
    predictions,
    progress,
    ranking,
    webhooks,
    workers,
)

app_name = "modelling"
urlpatterns = [
    path("r/<slug:slug>/", ranking.public_ranking, name="public_ranking"),
    path("s/<slug:slug>/own-view/", workers.own_view, name="own_view"),
    path("projects/<slug:slug>/activity/", progress.progress, name="progress"),
    path("projects/<slug:slug>/ranking/", ranking.ranking, name="ranking"),
    path("projects/<slug:slug>/ranking.csv", downloads.ranking, name="ranking_csv"),
    path("projects/<slug:slug>/workers/", workers.workers, name="workers"),
    path("projects/<slug:slug>/workers/<slug:code>/", workers.worker, name="worker"),
    path("projects/<slug:slug>/ranking/<int:pk>/", ranking.item, name="item"),
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
    path("projects/<slug:slug>/new-argument/", predictions.new_text, name="new_text"),
    path("projects/<slug:slug>/claims/", ranking.claims, name="claims"),
    path("projects/<slug:slug>/reliability/", ranking.reliability, name="reliability"),
    path("projects/<slug:slug>/suggestions/", planning.suggestions, name="suggestions"),
    path("projects/<slug:slug>/stopping/", planning.stopping, name="stopping"),
    path("projects/<slug:slug>/pairs/", predictions.pairs, name="pairs"),
    path("projects/<slug:slug>/components/", components.components, name="components"),
    path("projects/<slug:slug>/components.csv", downloads.components, name="components_csv"),
    path("projects/<slug:slug>/components/<int:number>/name/", components.rename, name="component_name"),
    path("projects/<slug:slug>/model/", model.model, name="model"),
    path("projects/<slug:slug>/model/versions/<int:number>/", model.version, name="version"),
    path("projects/<slug:slug>/model/compare/", model.compare, name="compare"),
    path("projects/<slug:slug>/model/pin/", model.pin, name="pin"),
    path("projects/<slug:slug>/model/unpin/", model.unpin, name="unpin"),
    path("projects/<slug:slug>/model/refit/", model.refit, name="refit"),
    path("projects/<slug:slug>/model/settings/", model.settings, name="model_settings"),
    path("projects/<slug:slug>/model/search/", model.search, name="search"),
    path("projects/<slug:slug>/model/search/use/", model.use_candidate, name="use_settings"),
    path("projects/<slug:slug>/webhooks/", webhooks.listing, name="webhooks"),
    path("projects/<slug:slug>/webhooks/<int:pk>/secret/", webhooks.secret, name="webhook_secret"),
    path("projects/<slug:slug>/webhooks/<int:pk>/switch/", webhooks.switch, name="webhook_switch"),
    path("projects/<slug:slug>/webhooks/<int:pk>/test/", webhooks.test, name="webhook_test"),
    path("projects/<slug:slug>/webhooks/<int:pk>/remove/", webhooks.remove, name="webhook_remove"),
    path("accounts/tokens/", api_tokens.tokens, name="tokens"),
    path("accounts/tokens/<int:pk>/revoke/", api_tokens.revoke, name="token_revoke"),
    path("api/v1/", api_tokens.documentation, name="api_documentation"),
    path("api/v1/openapi.json", api_tokens.document, name="api_document"),
]
websocket_urlpatterns = [path("ws/projects/<slug:slug>/", ProjectConsumer.as_asgi())]

"""Addresses of the model's pages, and of the socket that says when there is a new version."""

from django.urls import path

from modelling import views
from modelling.live import ProjectConsumer

app_name = "modelling"
urlpatterns = [
    path("r/<slug:slug>/", views.public_ranking, name="public_ranking"),
    path("projects/<slug:slug>/progress/", views.progress, name="progress"),
    path("projects/<slug:slug>/ranking/", views.ranking, name="ranking"),
    path("projects/<slug:slug>/ranking.csv", views.ranking_csv, name="ranking_csv"),
    path("projects/<slug:slug>/workers/", views.workers, name="workers"),
    path("projects/<slug:slug>/workers/<slug:code>/", views.worker, name="worker"),
    path("projects/<slug:slug>/new-argument/", views.new_argument, name="new_argument"),
    path("projects/<slug:slug>/pairs/", views.pairs, name="pairs"),
    path("projects/<slug:slug>/components/", views.components, name="components"),
]
websocket_urlpatterns = [path("ws/projects/<slug:slug>/", ProjectConsumer.as_asgi())]

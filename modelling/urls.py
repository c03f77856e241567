"""Addresses of the model's pages, and of the socket that says when there is a new version."""

from django.urls import path

from modelling import views
from modelling.live import ProjectConsumer

app_name = "modelling"
urlpatterns = [
    path("projects/<slug:slug>/ranking/", views.ranking, name="ranking"),
    path("projects/<slug:slug>/ranking.csv", views.ranking_csv, name="ranking_csv"),
    path("projects/<slug:slug>/workers/", views.workers, name="workers"),
    path("projects/<slug:slug>/workers/<slug:code>/", views.worker, name="worker"),
    path("projects/<slug:slug>/components/", views.components, name="components"),
    path("projects/<slug:slug>/components.csv", views.components_csv, name="components_csv"),
    path("projects/<slug:slug>/components/<int:number>/name/", views.component_name, name="component_name"),
]
websocket_urlpatterns = [path("ws/projects/<slug:slug>/", ProjectConsumer.as_asgi())]

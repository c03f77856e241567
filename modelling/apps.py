from django.apps import AppConfig


class ModellingConfig(AppConfig):
    name = "modelling"
    verbose_name = "Models, exports and webhooks"

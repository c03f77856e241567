from django.apps import AppConfig


class ModellingConfig(AppConfig):
    name = "modelling"
    verbose_name = "Judgements become scores"

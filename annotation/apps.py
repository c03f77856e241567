from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AnnotationConfig(AppConfig):
    name = "annotation"
    verbose_name = "Studies and people"

    def ready(self) -> None:
        from annotation.storage import event_log, fault_injection

        fault_injection.configure()
        post_migrate.connect(event_log.create_triggers_after_migrate, sender=self, dispatch_uid="append-only")

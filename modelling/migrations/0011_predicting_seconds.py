"""Rename the stage "foretelling" in the stored durations of updates."""

from django.db import migrations

OLD, NEW = "foretelling", "predicting"


def rename(apps, old: str, new: str) -> None:
    snapshots = apps.get_model("modelling", "ModelSnapshot").objects.only("pk", "diagnostics")
    for snapshot in snapshots.iterator(chunk_size=500):
        seconds = snapshot.diagnostics.get("seconds", {})
        if old in seconds:
            snapshot.diagnostics["seconds"] = {new if name == old else name: took for name, took in seconds.items()}
            snapshot.save(update_fields=["diagnostics"])


class Migration(migrations.Migration):
    dependencies = [("modelling", "0010_tried_inputs")]

    operations = [
        migrations.RunPython(lambda apps, editor: rename(apps, OLD, NEW), lambda apps, editor: rename(apps, NEW, OLD))
    ]

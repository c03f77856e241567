import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

ONCE = models.UniqueConstraint(fields=("worker", "number"), name="check_once")
EXPECTED = models.CheckConstraint(condition=models.Q(("expected__in", ["left", "right"])), name="check_expected")
KIND = models.CheckConstraint(condition=models.Q(("kind__in", ["attention", "gold"])), name="check_kind")


class Migration(migrations.Migration):
    dependencies = [("annotation", "0026_upload_pieces")]

    operations = [
        migrations.RemoveConstraint("attentioncheck", "attention_check_once"),
        migrations.RemoveConstraint("attentioncheck", "attention_check_expected"),
        migrations.RenameModel("AttentionCheck", "WorkerCheck"),
        migrations.AlterField(
            "workercheck",
            "worker",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="checks", to="annotation.worker"
            ),
        ),
        migrations.AddField(
            "workercheck",
            "kind",
            models.CharField(
                choices=[("attention", "attention check"), ("gold", "gold pair")], default="attention", max_length=10
            ),
        ),
        migrations.AddField(
            "workercheck",
            "pair",
            models.JSONField(
                blank=True, default=dict, help_text="The texts of a gold pair as shown: left and right."
            ),
        ),
        migrations.AddConstraint("workercheck", ONCE),
        migrations.AddConstraint("workercheck", EXPECTED),
        migrations.AddConstraint("workercheck", KIND),
        migrations.AddField(
            model_name='preparation',
            name='gold',
            field=models.JSONField(blank=True, default=list, help_text='A list of objects with better and worse.', verbose_name='gold pairs'),
        ),
        migrations.AddField(
            model_name='preparation',
            name='gold_consequence',
            field=models.CharField(choices=[('flag', 'the worker is flagged for a manual review'), ('failed_checks', 'the participation ends with the outcome “failed checks”')], default='flag', max_length=20, verbose_name='consequence of wrong answers to gold pairs'),
        ),
        migrations.AddField(
            model_name='preparation',
            name='gold_limit',
            field=models.PositiveSmallIntegerField(default=0, help_text='0 if there are no gold pairs.', verbose_name='wrong answers to gold pairs that trigger the rule'),
        ),
        migrations.AddField(
            model_name='project',
            name='gold_checks',
            field=models.PositiveSmallIntegerField(default=0, editable=False, validators=[django.core.validators.MaxValueValidator(10)], verbose_name='gold pairs per worker'),
        ),
        migrations.AlterField(
            model_name='studypassport',
            name='exclusion_rules',
            field=models.TextField(blank=True, help_text='Whose answers you will leave out, and how you decide that.', max_length=10000, verbose_name='exclusion rules'),
        ),
    ]

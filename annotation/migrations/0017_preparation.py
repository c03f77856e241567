import django.core.validators
import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0016_platform_events'),
    ]

    operations = [
        migrations.AddField(
            model_name='project',
            name='attention_checks',
            field=models.PositiveSmallIntegerField(default=0, help_text='From 0 to 5. Between two pairs workers are asked to choose First or Second. Those who fail two or more end with the outcome “failed checks”; their answers are kept.', validators=[django.core.validators.MaxValueValidator(5)], verbose_name='attention checks per worker'),
        ),
        migrations.AddField(
            model_name='worker',
            name='comprehension_attempts',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='worker',
            name='practised',
            field=models.PositiveSmallIntegerField(default=0, help_text='Practice pairs done.'),
        ),
        migrations.AddField(
            model_name='worker',
            name='preparing',
            field=models.BooleanField(default=False, help_text='The worker has still to practise or to pass the comprehension check.'),
        ),
        migrations.CreateModel(
            name='Preparation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('practice', models.JSONField(blank=True, default=list, help_text='A list of objects with first, second, answer and explanation.')),
                ('comprehension', models.JSONField(blank=True, default=list, help_text='A list of objects with question, choices and answer.')),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='preparation', to='annotation.project')),
            ],
        ),
        migrations.CreateModel(
            name='AttentionCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('number', models.PositiveSmallIntegerField()),
                ('expected', models.CharField(choices=[('left', 'left'), ('right', 'right')], max_length=5)),
                ('choice', models.CharField(blank=True, max_length=5)),
                ('issued_at', models.DateTimeField(auto_now_add=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='annotation.project')),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attention_checks', to='annotation.worker')),
            ],
            options={
                'ordering': ['number'],
                'constraints': [models.UniqueConstraint(fields=('worker', 'number'), name='attention_check_once'), models.CheckConstraint(condition=models.Q(('expected__in', ['left', 'right'])), name='attention_check_expected')],
            },
        ),
    ]

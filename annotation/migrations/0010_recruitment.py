import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0009_worker_texts'),
    ]

    operations = [
        migrations.AddField(
            model_name='worker',
            name='ended_at',
            field=models.DateTimeField(blank=True, help_text='When the outcome was set.', null=True),
        ),
        migrations.CreateModel(
            name='Recruitment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('platform', models.CharField(blank=True, choices=[('', 'none: everyone with the link'), ('prolific', 'Prolific'), ('mturk', 'Amazon Mechanical Turk'), ('generic', 'another panel')], max_length=20, verbose_name='platform')),
                ('study_id', models.CharField(blank=True, help_text='Workers who arrive with another study ID are refused. If empty, any study ID is accepted.', max_length=200, verbose_name='ID of the study on the platform')),
                ('participant_parameter', models.CharField(blank=True, default='participant', max_length=40, verbose_name="parameter with the participant's ID")),
                ('study_parameter', models.CharField(blank=True, max_length=40, verbose_name="parameter with the study's ID")),
                ('session_parameter', models.CharField(blank=True, max_length=40, verbose_name="parameter with the session's ID")),
                ('completion_url', models.CharField(blank=True, help_text='{code}, {participant} and {session} are replaced. If empty, workers copy the code.', max_length=500, verbose_name='link back to the panel')),
                ('codes', models.JSONField(blank=True, default=dict, verbose_name='completion codes')),
                ('unreplaced_at', models.DateTimeField(blank=True, editable=False, help_text='When a worker last arrived with unreplaced placeholders.', null=True)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='recruitment', to='annotation.project')),
            ],
            options={
                'verbose_name_plural': 'recruitment',
                'constraints': [models.CheckConstraint(condition=models.Q(('platform__in', ['', 'prolific', 'mturk', 'generic'])), name='recruitment_platform')],
            },
        ),
    ]

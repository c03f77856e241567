import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0021_pay_and_pilot'),
    ]

    operations = [
        migrations.CreateModel(
            name='StudyPassport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('exclusion_rules', models.TextField(blank=True, help_text='Whose answers you will leave out, and how you decide that. Name your rule for gold pairs here.', max_length=10000, verbose_name='exclusion rules')),
                ('stop_rule', models.TextField(blank=True, help_text='When you will stop collecting answers.', max_length=10000, verbose_name='stop rule')),
                ('content', models.JSONField(blank=True, default=dict, editable=False)),
                ('digest', models.CharField(blank=True, editable=False, help_text='SHA-256 of the content.', max_length=64)),
                ('frozen_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='passport', to='annotation.project')),
            ],
        ),
    ]

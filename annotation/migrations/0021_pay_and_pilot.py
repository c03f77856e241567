import django.core.validators
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0020_trial_answers'),
    ]

    operations = [
        migrations.AddField(
            model_name='recruitment',
            name='currency',
            field=models.CharField(choices=[('GBP', 'GBP'), ('USD', 'USD'), ('EUR', 'EUR')], default='GBP', max_length=3, verbose_name='currency'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='estimated_minutes',
            field=models.PositiveIntegerField(default=0, help_text='Used until the first workers have finished; then the median of their times counts.', validators=[django.core.validators.MaxValueValidator(1440)], verbose_name='estimated minutes per worker'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='hourly_target',
            field=models.DecimalField(decimal_places=2, default=Decimal('0'), help_text="You are warned below this or the platform's minimum (Prolific: £6 or $8 per hour).", max_digits=8, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='target pay per hour'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='pilot_workers',
            field=models.PositiveIntegerField(default=0, help_text='Only this many workers may join; when all of them have ended, the study pauses. 0 means no pilot.', validators=[django.core.validators.MaxValueValidator(10000)], verbose_name='workers in the pilot'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='places',
            field=models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(1000000)], verbose_name='workers wanted'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='reward',
            field=models.DecimalField(decimal_places=2, default=Decimal('0'), help_text="Platform fees are not included.", max_digits=8, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='pay per worker'),
        ),
    ]

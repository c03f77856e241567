#!/usr/bin/env python
"""The command line of Concord."""

import os
import sys

from config.profiles import settings_module

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module())
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)

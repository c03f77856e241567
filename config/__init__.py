"""Settings, URLs, ASGI and Celery applications, middleware: everything that depends on the environment."""

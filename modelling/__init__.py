"""The Django app that fits the model: training, the updater, dashboards, exports and the API."""

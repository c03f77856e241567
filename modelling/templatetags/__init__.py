"""Template filters of the dashboards."""

"""The model's web layer: views, forms and URLs of its pages, the REST API, live updates over WebSockets, metrics."""

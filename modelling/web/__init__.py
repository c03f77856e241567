"""What the model shows over HTTP: views, forms and URLs of its pages, the REST API, live updates over WebSockets."""

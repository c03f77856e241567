"""Views, forms and URLs of the model's pages, and live updates over WebSockets."""

app_name = "modelling"
urlpatterns = []
websocket_urlpatterns = []

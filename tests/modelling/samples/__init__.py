"""Studies, histories and fitted models that several tests share."""

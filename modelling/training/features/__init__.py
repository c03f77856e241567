"""Feature extraction: texts and questionnaire answers become vectors."""

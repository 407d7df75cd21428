"""Views: pure read models for people, made from the journal and from what a master would decide."""

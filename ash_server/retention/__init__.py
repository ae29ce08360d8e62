"""Retention: deletes the sessions of a tenant some time after their last change."""
